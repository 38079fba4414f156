package io.delta.sql

import headwater.spark.HeadwaterExtension

/** Headwater's extension under the name that settings know. */
class DeltaSparkSessionExtension extends HeadwaterExtension
