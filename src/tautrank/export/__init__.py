"""Export a trained model to Solr, Elasticsearch, OpenSearch, Vespa, RankLib, ONNX or LightGBM."""

from tautrank.export.exporting import FORMATS, export_model

__all__ = ["FORMATS", "export_model"]
