# A classifier, trained and tested.
# expect stdout: accuracy over 0.9: True
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

features, kinds = load_iris(return_X_y=True)
split = train_test_split(features, kinds, random_state=0)
model = RandomForestClassifier(n_estimators=20, random_state=0).fit(split[0], split[2])
print("accuracy over 0.9:", model.score(split[1], split[3]) > 0.9)
