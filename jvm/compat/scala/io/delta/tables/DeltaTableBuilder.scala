package io.delta.tables

import scala.annotation.varargs
import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/** The description of a table to create. Each method changes the builder and returns it; [[execute]] creates the table. */
class DeltaTableBuilder private[tables] (spark: SparkSession, begins: String) {
  private var name: Option[String] = None
  private var place: Option[String] = None
  private var description: Option[String] = None
  private val columns = mutable.ArrayBuffer.empty[String]
  private var partitions = Seq.empty[String]
  private var clusters = Seq.empty[String]
  private val properties = mutable.LinkedHashMap.empty[String, String]

  /** The table's name, with catalog and schema or without, or `delta.`/path` ``. */
  def tableName(identifier: String): DeltaTableBuilder = { name = Some(identifier); this }
  def comment(comment: String): DeltaTableBuilder = { description = Some(comment); this }
  def location(location: String): DeltaTableBuilder = { place = Some(location); this }

  def addColumn(colName: String, dataType: String): DeltaTableBuilder = addColumn(colName, dataType, nullable = true)
  def addColumn(colName: String, dataType: DataType): DeltaTableBuilder = addColumn(colName, dataType, nullable = true)
  def addColumn(colName: String, dataType: String, nullable: Boolean): DeltaTableBuilder = {
    columns += s"${SqlText.quote(Seq(colName))} $dataType${if (nullable) "" else " NOT NULL"}"
    this
  }
  def addColumn(colName: String, dataType: DataType, nullable: Boolean): DeltaTableBuilder =
    addColumn(StructField(colName, dataType, nullable))

  /** A field as [[DeltaTable.columnBuilder]] makes it. */
  def addColumn(col: StructField): DeltaTableBuilder = {
    columns += DeltaColumnBuilder.sql(spark, col)
    this
  }
  def addColumns(cols: StructType): DeltaTableBuilder = {
    cols.foreach(addColumn(_: StructField))
    this
  }

  @varargs
  def partitionedBy(colNames: String*): DeltaTableBuilder = { partitions = colNames; this }
  @varargs
  def clusterBy(colNames: String*): DeltaTableBuilder = { clusters = colNames; this }
  def property(key: String, value: String): DeltaTableBuilder = { properties(key) = value; this }

  /** Creates the table and opens it. */
  def execute(): DeltaTable = {
    val table = name.orElse(place.map(SqlText.path)).getOrElse(
      throw new IllegalArgumentException("The table to create has neither name nor location: call tableName() or location()."))
    val lines = Seq(
      Some(s"$begins $table"),
      Option.when(columns.nonEmpty)(columns.mkString("(\n  ", ",\n  ", "\n)")),
      Some("USING delta"),
      Option.when(partitions.nonEmpty)(s"PARTITIONED BY ${SqlText.columns(partitions)}"),
      Option.when(clusters.nonEmpty)(s"CLUSTER BY ${SqlText.columns(clusters)}"),
      name.flatMap(_ => place).map(path => s"LOCATION ${SqlText.literal(path)}"),
      description.map(text => s"COMMENT ${SqlText.literal(text)}"),
      Option.when(properties.nonEmpty)(s"TBLPROPERTIES ${SqlText.pairs(properties)}"))
    spark.sql(lines.flatten.mkString("\n"))
    DeltaTable.open(spark, table)
  }
}
