# Text in many scripts.
# expect stdout: Grüße, Καλημέρα, こんにちは, 👋
# expect result: 'GRÜSSE'
import unicodedata

print("Grüße, Καλημέρα, こんにちは, 👋")
unicodedata.normalize("NFC", "Gru\u0308sse").upper()
