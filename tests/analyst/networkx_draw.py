# A graph: its shortest path, and its picture.
# expect result: ['a', 'b', 'd']
# expect images: 1
import networkx as nx

graph = nx.Graph()
graph.add_weighted_edges_from([("a", "b", 1), ("b", "d", 1), ("a", "c", 2), ("c", "d", 2)])
nx.draw(graph, with_labels=True, pos=nx.circular_layout(graph))
nx.shortest_path(graph, "a", "d", weight="weight")
