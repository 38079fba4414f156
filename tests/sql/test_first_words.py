"""What the JVM asks about before Spark's parser is what the grammars say."""

import re

from headwater.sql import grammar
from support.paths import TESTS


def test_spark_asks_first_about_what_its_parser_would_read_as_something_else():
    scala = TESTS.parent / "jvm/src/main/scala/headwater/spark/statements/HeadwaterParser.scala"
    listed = re.search(r"val FirstWords = Seq\((.*?)\)", scala.read_text(), re.S)
    assert listed is not None
    assert re.findall(r'"(.*?)"', listed[1]) == grammar.first_words()
