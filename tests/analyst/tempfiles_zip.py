# Temporary files and directories, packed and unpacked.
# expect result: ['a.txt', 'b/c.txt']
# expect file: all.zip
import pathlib
import tempfile
import zipfile

with tempfile.TemporaryDirectory() as name:
    root = pathlib.Path(name)
    (root / "b").mkdir()
    (root / "a.txt").write_text("a")
    (root / "b" / "c.txt").write_text("c" * 1000)
    with zipfile.ZipFile("all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.txt")):
            archive.write(path, path.relative_to(root))
assert not root.exists()
zipfile.ZipFile("all.zip").namelist()
