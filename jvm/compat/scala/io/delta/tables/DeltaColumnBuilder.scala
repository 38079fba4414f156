package io.delta.tables

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.types.{DataType, Metadata, MetadataBuilder, StructField}

/** The description of a column; [[build]] makes the field for [[DeltaTableBuilder.addColumn]]. */
class DeltaColumnBuilder private[tables] (name: String) {
  private var kind: Option[DataType] = None
  private var isNullable = true
  private val metadata = new MetadataBuilder

  def dataType(dataType: String): DeltaColumnBuilder = this.dataType(DataType.fromDDL(dataType))
  def dataType(dataType: DataType): DeltaColumnBuilder = { kind = Some(dataType); this }
  def nullable(nullable: Boolean): DeltaColumnBuilder = { isNullable = nullable; this }

  /** The SQL expression that computes the column. */
  def generatedAlwaysAs(expr: String): DeltaColumnBuilder = { metadata.putString(DeltaColumnBuilder.Generated, expr); this }

  /** An identity that writers may not give values for. */
  def generatedAlwaysAsIdentity(): DeltaColumnBuilder = generatedAlwaysAsIdentity(1, 1)
  def generatedAlwaysAsIdentity(start: Long, step: Long): DeltaColumnBuilder = identity(start, step, byDefault = false)

  /** An identity for rows without a value from the writer. */
  def generatedByDefaultAsIdentity(): DeltaColumnBuilder = generatedByDefaultAsIdentity(1, 1)
  def generatedByDefaultAsIdentity(start: Long, step: Long): DeltaColumnBuilder = identity(start, step, byDefault = true)

  def comment(comment: String): DeltaColumnBuilder = { metadata.putString(DeltaColumnBuilder.Comment, comment); this }

  def build(): StructField = StructField(
    name,
    kind.getOrElse(throw new IllegalArgumentException(s"Column $name has no type: call dataType().")),
    isNullable,
    metadata.build())

  private def identity(start: Long, step: Long, byDefault: Boolean): DeltaColumnBuilder = {
    metadata.putLong(DeltaColumnBuilder.IdentityStart, start).putLong(DeltaColumnBuilder.IdentityStep, step)
      .putBoolean(DeltaColumnBuilder.IdentityByDefault, byDefault)
    this
  }
}

private[tables] object DeltaColumnBuilder {
  // The protocol's keys in a field's metadata, and Spark's for CHAR and VARCHAR.
  private val Comment = "comment"
  private val Generated = "delta.generationExpression"
  private val IdentityStart = "delta.identity.start"
  private val IdentityStep = "delta.identity.step"
  private val IdentityByDefault = "delta.identity.allowExplicitInsert"
  private val Characters = "__CHAR_VARCHAR_TYPE_STRING"

  /** A field as a column of CREATE TABLE. */
  def sql(spark: SparkSession, field: StructField): String = {
    val of = field.metadata
    val generated =
      if (of.contains(IdentityStep)) {
        val values = s"START WITH ${longOr(of, IdentityStart, 1)} INCREMENT BY ${of.getLong(IdentityStep)}"
        val byDefault = of.contains(IdentityByDefault) && of.getBoolean(IdentityByDefault)
        s" GENERATED ${if (byDefault) "BY DEFAULT" else "ALWAYS"} AS IDENTITY ($values)"
      } else text(of, Generated).map { expression =>
        SqlText.checkParses(spark, expression)
        s" GENERATED ALWAYS AS ${SqlText.alone(expression)}"
      }.getOrElse("")
    SqlText.quote(Seq(field.name)) + " " + text(of, Characters).getOrElse(field.dataType.sql) +
      (if (field.nullable) "" else " NOT NULL") + generated +
      text(of, Comment).map(comment => s" COMMENT ${SqlText.literal(comment)}").getOrElse("")
  }

  private def text(metadata: Metadata, key: String): Option[String] = Option.when(metadata.contains(key))(metadata.getString(key))
  private def longOr(metadata: Metadata, key: String, other: Long): Long = if (metadata.contains(key)) metadata.getLong(key) else other
}
