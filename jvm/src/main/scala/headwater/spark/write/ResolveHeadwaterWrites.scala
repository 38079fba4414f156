package headwater.spark.write

import scala.jdk.CollectionConverters._

import headwater.spark.HeadwaterException
import headwater.spark.bridge.{Bridge, SchemaText, StoreOptions}
import headwater.spark.bridge.messages.ResolveWriteRequest
import headwater.spark.catalog.{CatalogRelation, HeadwaterStagedTable, HeadwaterTable}
import headwater.spark.scan.filters.FilterText
import headwater.spark.shims.WriteShim
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.dml.VariableResolver
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Matches the columns of a write to its table. The handler decides about schema evolution and says which columns the table will have;
 * Spark's own rules of assignment do the rest. The write's options carry what an overwrite deletes.
 */
case class ResolveHeadwaterWrites(session: SparkSession) extends Rule[LogicalPlan] {
  import ResolveHeadwaterWrites.matchColumns

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case replacing @ ReplacingOverwrite(_, _, _) => replacing
    case write: V2WriteCommand if write.query.resolved && isReady(write) =>
      write.table match {
        case relation @ CatalogRelation(table: HeadwaterTable, _, _) => resolve(write, relation, table)
        case _ => write
      }
  }

  private def isReady(write: V2WriteCommand): Boolean = write match {
    case overwrite: OverwriteByExpression => overwrite.deleteExpr.resolved
    case _ => true
  }

  private def resolve(write: V2WriteCommand, relation: DataSourceV2Relation, loaded: HeadwaterTable): LogicalPlan = {
    val asked = ResolveHeadwaterWrites.options(write, relation)
    val table = loaded.reachedWith(asked)
    table.requireLatest()
    // What creates a table needs all of them when it commits.
    val options = if (table.isInstanceOf[HeadwaterStagedTable]) asked else StoreOptions.others(asked)
    val target = write match {
      case o: OverwriteByExpression if o.deleteExpr != Literal.TrueLiteral =>
        // A predicate that SQL cannot express must not become an overwrite of everything.
        val condition = StoredPartitionValue.in(VariableResolver.folded(o.deleteExpr), table.partitionColumns)
        val text = FilterText.of(condition).getOrElse(throw HeadwaterException(
          if (condition.deterministic) "DELTA_UNSUPPORTED_REPLACE_WHERE" else "INVALID_NON_DETERMINISTIC_EXPRESSIONS",
          "predicate" -> condition.sql))
        WriteTarget(table, WriteTarget.Overwrite, Some(text))
      case _: OverwriteByExpression => WriteTarget(table, WriteTarget.Overwrite)
      case _: OverwritePartitionsDynamic => WriteTarget(table, WriteTarget.Dynamic)
      case _ => WriteTarget(table, WriteTarget.Append)
    }
    val query = table match {
      case _: HeadwaterStagedTable => write.query
      case _ => matchColumns(session, target, write.query, options, write.isByName, isSql = write.origin.sqlText.isDefined)
    }
    val marked = relation.copy(table = target.of(write.query), options = new CaseInsensitiveStringMap(options.asJava))
    write match {
      case a: AppendData => a.copy(table = marked, query = query, writeOptions = options)
      case o: OverwriteByExpression =>
        o.copy(table = marked, query = query, writeOptions = options, deleteExpr = Literal.TrueLiteral)
      // Spark has no dynamic overwrite for V1 writes; the options tell the handler.
      case o: OverwritePartitionsDynamic =>
        WriteShim.overwrite(marked, Literal.TrueLiteral, query, options, o.isByName, WriteShim.evolves(o))
      case other => other
    }
  }
}

object ResolveHeadwaterWrites {
  /** All options of a write: its own, its table's, and WITH SCHEMA EVOLUTION as the option that it means. */
  def options(write: V2WriteCommand, relation: DataSourceV2Relation): Map[String, String] = {
    val own = write match {
      case a: AppendData => a.writeOptions
      case o: OverwriteByExpression => o.writeOptions
      case o: OverwritePartitionsDynamic => o.writeOptions
      case _ => Map.empty[String, String]
    }
    val evolution = if (WriteShim.evolves(write)) Map("mergeSchema" -> "true") else Map.empty
    own ++ relation.options.asCaseSensitiveMap().asScala ++ evolution
  }

  /** @param brings the schema that the rows of the query count as having; its own by default */
  def matchColumns(
      session: SparkSession,
      target: WriteTarget,
      query: LogicalPlan,
      options: Map[String, String],
      byName: Boolean,
      casts: Boolean = true,
      isSql: Boolean = false,
      brings: Option[String] = None): LogicalPlan = {
    val table = target.table
    val answer = Bridge.call(
      session,
      ResolveWriteRequest(
        table = table.path,
        name = Some(table.name()),
        version = table.snapshotVersion,
        schema = brings.getOrElse(SparkInternals.rowSchema(query.schema)),
        byName = byName,
        isSql = isSql,
        mode = target.mode,
        replaceWhere = target.replaceWhere,
        options = StoreOptions.others(options)),
      table.location)
    val expected = SchemaText.read(answer.schema)
    SparkInternals.resolveOutput(session, table.name(), SparkInternals.attributes(expected), query, byName, casts)
  }
}
