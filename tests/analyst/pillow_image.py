# An image is its own representation.
# expect mime: image/png
# expect output: thumb.jpg image/jpeg
from PIL import Image, ImageDraw

image = Image.new("RGB", (64, 64), "white")
ImageDraw.Draw(image).ellipse((8, 8, 56, 56), fill="red")
image.resize((16, 16)).save("thumb.jpg")
image
