package headwater.spark.write

import scala.jdk.CollectionConverters._

import headwater.spark.catalog.HeadwaterStagedTable
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.sources.InsertableRelation
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A write into an existing table. The handler gets the rows as a plan; the options say what to overwrite. */
class HeadwaterWriteBuilder(target: WriteTarget, options: CaseInsensitiveStringMap)
    extends WriteBuilder
    with SupportsOverwriteV2
    with SupportsDynamicOverwrite {

  override def truncate(): WriteBuilder = this
  override def canOverwrite(predicates: Array[Predicate]): Boolean = true
  override def overwrite(predicates: Array[Predicate]): WriteBuilder = this
  override def overwriteDynamicPartitions(): WriteBuilder = this

  override def build(): Write = new V1Write {
    override def toInsertableRelation: InsertableRelation = (data: DataFrame, _: Boolean) =>
      target.table match {
        case staged: HeadwaterStagedTable => staged.stage(data, options.asCaseSensitiveMap().asScala.toMap)
        case _ => HeadwaterWrites.write(target, data, options.asCaseSensitiveMap().asScala.toMap)
      }
  }
}
