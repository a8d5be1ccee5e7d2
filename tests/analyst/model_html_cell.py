%%html
<!-- A cell of HTML.
# expect displays: 1
-->
<b>bold</b>
