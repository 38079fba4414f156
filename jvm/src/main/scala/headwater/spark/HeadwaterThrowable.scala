package headwater.spark

import org.apache.spark.SparkThrowable

/** An error of Headwater: a condition, its SQLSTATE and its parameters. */
trait HeadwaterThrowable extends SparkThrowable
