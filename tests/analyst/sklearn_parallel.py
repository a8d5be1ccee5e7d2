# Many jobs at once, by joblib.
# expect result: 5
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

features, kinds = load_iris(return_X_y=True)
len(cross_val_score(LogisticRegression(max_iter=500), features, kinds, n_jobs=2))
