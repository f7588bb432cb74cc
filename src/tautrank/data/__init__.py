"""Ranking data: queries, documents, labels and features, and how to read and write them."""

from tautrank.data.folders import Splits, list_folds, read_folder
from tautrank.data.letor import read_letor
from tautrank.data.letor_writer import write_letor
from tautrank.data.lists import Lists
from tautrank.data.ranking_data import RankingData
from tautrank.data.reading import read, read_scores
from tautrank.data.streamed import StreamedRows, read_streamed
from tautrank.data.summary import DataSummary
from tautrank.data.table_files import read_csv, read_parquet
from tautrank.data.trec import JudgedRun, judge_run, read_qrels, read_run

__all__ = [
    "DataSummary",
    "JudgedRun",
    "Lists",
    "RankingData",
    "Splits",
    "StreamedRows",
    "judge_run",
    "list_folds",
    "read",
    "read_csv",
    "read_folder",
    "read_letor",
    "read_parquet",
    "read_qrels",
    "read_run",
    "read_scores",
    "read_streamed",
    "write_letor",
]
