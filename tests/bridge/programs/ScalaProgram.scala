import io.delta.exceptions.DeltaConcurrentModificationException
import io.delta.implicits._
import io.delta.tables._
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.functions.{col, expr, lit}
import org.apache.spark.sql.types.{LongType, StringType, StructType}

/** A program as people write them for Delta Lake's Scala API; it prints what it sees, a line each. */
object ScalaProgram {
  private def show(what: String, rows: DataFrame): Unit =
    println(s"$what: ${rows.collect().map(_.mkString(",")).sorted.mkString(" ")}")

  private def fails(what: String)(action: => Any): Unit =
    try {
      action
      println(s"$what: no error")
    } catch {
      case e: Throwable => println(s"$what: ${Option(e.getMessage).getOrElse("").trim.takeWhile(_ != ' ')}")
    }

  def main(arguments: Array[String]): Unit = {
    val spark = SparkSession.builder().getOrCreate()
    val Array(root, _*) = arguments
    val path = s"$root/t"

    spark.range(0, 10).selectExpr("id", "id * 10 AS v", "id % 2 AS p").write.partitionBy("p").delta(path)
    show("read", spark.read.delta(path).where("id < 3"))
    val table = DeltaTable.forPath(spark, path)
    table.delete("id = 9")
    table.delete(col("id") === 8)
    table.update(Map("v" -> lit(-1L)))
    table.update(col("id") === 0, Map("v" -> (col("v") + 5)))
    table.updateExpr(Map("v" -> "v - 1"))
    table.updateExpr("id = 1 -- the second", Map("v" -> "id + 100"))
    show("changed", table.toDF.select("id", "v"))

    val source = spark.createDataFrame(Seq((1L, 11L), (2L, 12L), (20L, 120L))).toDF("id", "v")
    val counts = table.as("t")
      .merge(source.as("s"), "t.id = s.id")
      .whenMatched("s.id = 1").delete()
      .whenMatched(col("s.id") === 2).update(Map("v" -> (col("s.v") + col("t.v"))))
      .whenMatched().updateExpr(Map("t.v" -> "s.v"))
      .whenNotMatched(col("s.id") > 100).insert(Map("id" -> col("s.id"), "p" -> lit(9L)))
      .whenNotMatched("s.id = 20").insertExpr(Map("id" -> "s.id", "v" -> "s.v", "p" -> "0"))
      .whenNotMatchedBySource("t.id = 7").delete()
      .whenNotMatchedBySource(col("t.id") === 6).update(Map("v" -> lit(66L)))
      .execute()
    show("counts", counts)
    show("merged", table.toDF.select("id", "v", "p"))
    table.merge(source.withColumn("extra", expr("'e' || id")), source("id") === table.toDF("id"))
      .withSchemaEvolution()
      .whenNotMatched().insert(Map("id" -> source("id"), "v" -> source("v"), "extra" -> col("extra"), "p" -> lit(1L)))
      .execute()
    show("evolved", DeltaTable.forPath(path).toDF.where("id < 3 or id >= 20").select("id", "v", "extra"))

    show("files", table.optimize().where("p = 0").executeCompaction().selectExpr("metrics.numFilesAdded > 0"))
    table.optimize().executeZOrderBy("id", "v")
    show("operations", table.history(2).select("operation"))
    show("detail", table.detail().select("format", "partitionColumns"))
    table.restoreToVersion(0)
    println(s"restored: ${table.toDF.count()}")
    table.vacuum(1000)
    table.addFeatureSupport("v2Checkpoint")
    table.dropFeatureSupport("v2Checkpoint")
    table.upgradeTableProtocol(1, 4)
    println(s"delta table: ${DeltaTable.isDeltaTable(spark, path)} ${DeltaTable.isDeltaTable(s"$root/nowhere")}")

    val made = DeltaTable.createIfNotExists(spark)
      .tableName("made")
      .addColumn("id", "BIGINT", nullable = false)
      .addColumn(DeltaTable.columnBuilder(spark, "twice").dataType(LongType).generatedAlwaysAs("id * 2").comment("it's 2x").build())
      .addColumn(DeltaTable.columnBuilder("n").dataType("BIGINT").generatedByDefaultAsIdentity(5, 5).build())
      .addColumns(new StructType().add("name", StringType))
      .clusterBy("id")
      .comment("made by a builder")
      .property("delta.appendOnly", "true")
      .execute()
    spark.sql("INSERT INTO made (id, name) VALUES (3, 'c')")
    show("made", made.toDF)
    show("names", made.detail().select("description", "clusteringColumns", "properties"))
    println(s"comment: ${made.toDF.schema("twice").getComment().getOrElse("")}")
    DeltaTable.createOrReplace().location(s"$root/placed").addColumn("k", "INT").addColumn("p", "INT").partitionedBy("p").execute()
    DeltaTable.replace(spark).tableName(s"delta.`$root/placed`").addColumn("other", LongType).execute()
    println(s"replaced: ${DeltaTable.forPath(s"$root/placed").toDF.columns.mkString(",")}")

    fails("unknown path")(DeltaTable.forPath(spark, s"$root/nowhere"))
    fails("unknown name")(DeltaTable.forName("nowhere"))
    fails("no expression")(table.delete("id = 1) OR (true"))
    fails("append only")(made.delete())
    val stream = spark.readStream.delta(path).writeStream.option("checkpointLocation", s"$root/c")
      .trigger(org.apache.spark.sql.streaming.Trigger.AvailableNow()).delta(s"$root/streamed")
    stream.awaitTermination()
    println(s"streamed: ${spark.read.delta(s"$root/streamed").count()}")
    inAnotherCatalog(spark, root)
    val conflicts = sys.props("conflicts").split(",").toSeq
    println(s"conflicts: ${conflicts.map(conflict(spark, root, _)).mkString(" ")}")
    JavaProgram.run(spark, root)
    spark.stop()
  }

  /** The class that a conflict is caught by. */
  private def conflict(spark: SparkSession, root: String, condition: String): String =
    try {
      spark.sql(s"SELECT * FROM delta.`$root/raise_$condition`")
      "no error"
    } catch {
      case e: DeltaConcurrentModificationException if e.getMessage.contains(s"[$condition]") => e.getClass.getName
    }

  /** Tables of a catalog that stands above Delta Lake's, whose entries are in a third one. */
  private def inAnotherCatalog(spark: SparkSession, root: String): Unit = {
    val table = "other.space.t"
    spark.sql(s"CREATE TABLE $table (id BIGINT COMMENT 'the key', name STRING) USING delta")
    spark.sql(s"INSERT INTO $table VALUES (1, 'a'), (2, 'b')")
    spark.sql(s"MERGE INTO $table t USING (SELECT 2L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'c'")
    spark.sql(s"DELETE FROM $table WHERE id = 1")
    spark.sql(s"ALTER TABLE $table ADD COLUMN more INT")
    show("wrapped", spark.table(table))
    spark.sql(s"CREATE TABLE other.space.made USING delta LOCATION '$root/elsewhere' AS SELECT id FROM range(3)")
    spark.sql(s"CREATE OR REPLACE TABLE other.space.made USING delta AS SELECT id FROM range(5)")
    println(s"wrapped as select: ${spark.table("other.space.made").count()} ${spark.read.delta(s"$root/elsewhere").count()}")
    spark.sql("ALTER TABLE other.space.made RENAME TO space.renamed")
    show("wrapped names", spark.sql("SHOW TABLES IN other.space").select("tableName").orderBy("tableName"))
    show("wrapped history", spark.sql("DESCRIBE HISTORY other.space.renamed").select("operation"))
    spark.sql("DROP TABLE other.space.renamed")
    fails("wrapped and dropped")(spark.table("other.space.renamed").count())
    fails("wrapped namespace")(spark.sql("CREATE TABLE other.nowhere.t (id INT) USING delta"))
    println(s"wrapped alone: ${spark.catalog.tableExists("spark_catalog.default.t")} ${spark.catalog.databaseExists("space")}")
    println(s"version: ${Class.forName("io.delta.Version").getMethod("getVersion").invoke(null)}")
  }
}
