"""Ranking data: queries, documents, labels and features, and how to read and write them."""

from tautrank.data.folders import Splits as Splits
from tautrank.data.folders import list_folds as list_folds
from tautrank.data.folders import read_folder as read_folder
from tautrank.data.letor import read_letor as read_letor
from tautrank.data.letor_writer import write_letor as write_letor
from tautrank.data.ranking_data import RankingData as RankingData
from tautrank.data.score_files import read_scores as read_scores
from tautrank.data.summary import DataSummary as DataSummary
from tautrank.data.tables import read_csv as read_csv
from tautrank.data.tables import read_parquet as read_parquet
from tautrank.data.trec import Judged as Judged
from tautrank.data.trec import judge_run as judge_run
from tautrank.data.trec import read_qrels as read_qrels
from tautrank.data.trec import read_run as read_run
