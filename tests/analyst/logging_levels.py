# Logging goes to standard error, and to a file.
# expect stderr: WARNING:shop:stock is low
# expect result: 'INFO opened'
import logging

logging.basicConfig(level=logging.WARNING)
logger = logging.getLogger("shop")
logger.setLevel(logging.INFO)
handler = logging.FileHandler("shop.log")
handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
logger.addHandler(handler)
logger.propagate = False
logger.info("opened")
logger.propagate = True
logger.warning("stock is low")
handler.close()
open("shop.log").readline().strip()
