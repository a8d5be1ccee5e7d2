# Archives and compression.
# expect result: (True, 'hello')
import bz2
import gzip
import io
import lzma
import tarfile

data = b"the same again " * 1000
small = all(len(m.compress(data)) < 500 and m.decompress(m.compress(data)) == data
            for m in (gzip, bz2, lzma))
with tarfile.open("x.tar.gz", "w:gz") as archive:
    entry = tarfile.TarInfo("hello.txt")
    entry.size = 5
    archive.addfile(entry, io.BytesIO(b"hello"))
with tarfile.open("x.tar.gz") as archive:
    text = archive.extractfile("hello.txt").read().decode()
small, text
