package headwater.spark

import org.apache.spark.SparkThrowable

/** A condition, its SQLSTATE and its parameters, as the handler sent them. */
trait HeadwaterThrowable extends SparkThrowable
