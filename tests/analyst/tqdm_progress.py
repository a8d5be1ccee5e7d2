# A progress bar moves on standard error.
# expect stderr: 100%
# expect stdout: 4950
from tqdm import tqdm

print(sum(tqdm(range(100), desc="summing")))
