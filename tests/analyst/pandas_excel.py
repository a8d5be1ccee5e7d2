# A workbook written and read again.
# expect file: book.xlsx
# expect result: {'desk': 3, 'lamp': 5}
import pandas as pd

frame = pd.DataFrame({"item": ["desk", "lamp"], "count": [3, 5]})
frame.to_excel("book.xlsx", index=False, sheet_name="stock")
back = pd.read_excel("book.xlsx", sheet_name="stock")
dict(zip(back["item"], back["count"].tolist()))
