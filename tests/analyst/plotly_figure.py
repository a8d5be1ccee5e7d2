# A plotly figure is described, not drawn.
# expect mime: application/vnd.plotly.v1+json
import plotly.graph_objects as go

go.Figure(data=go.Bar(x=["a", "b"], y=[1, 2]), layout={"title": "bars"})
