package headwater.spark.write

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.{Bridge, StatementContext}
import headwater.spark.catalog.{HeadwaterStagedTable, HeadwaterTable}
import headwater.spark.scan.FilterText
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.dml.VariableResolver
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Matches the columns of a write to its table. The handler decides about schema evolution and says which columns the table will have;
 * Spark's own rules of assignment do the rest. The write's options carry what an overwrite deletes.
 */
case class ResolveHeadwaterWrites(session: SparkSession) extends Rule[LogicalPlan] {
  import ResolveHeadwaterWrites._

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case write: V2WriteCommand if write.query.resolved && !isResolved(write) && isReady(write) =>
      write.table match {
        case relation @ DataSourceV2Relation(table: HeadwaterTable, _, _, _, _, _) => resolve(write, relation, table)
        case _ => write
      }
  }

  private def isReady(write: V2WriteCommand): Boolean = write match {
    case overwrite: OverwriteByExpression => overwrite.deleteExpr.resolved
    case _ => true
  }

  private def isResolved(write: V2WriteCommand): Boolean = write.table match {
    case relation: DataSourceV2Relation => relation.options.containsKey(Resolved)
    case _ => true
  }

  private def resolve(write: V2WriteCommand, relation: DataSourceV2Relation, table: HeadwaterTable): LogicalPlan = {
    table.requireLatest()
    val provided = optionsOf(write) ++ relation.options.asCaseSensitiveMap().asScala
    val mode = write match {
      case _: OverwriteByExpression => Map(OverwriteMode -> "overwrite")
      case _: OverwritePartitionsDynamic => Map(OverwriteMode -> "dynamic")
      case _ => Map(OverwriteMode -> "append")
    }
    val predicate = write match {
      case o: OverwriteByExpression if o.deleteExpr != Literal.TrueLiteral =>
        // A predicate that SQL cannot express must not become an overwrite of everything.
        val condition = VariableResolver.folded(o.deleteExpr)
        Some(ReplaceWhere -> FilterText.of(condition).getOrElse(unsupported(condition)))
      case _ => None
    }
    val options = provided ++ mode ++ predicate ++ Map(Resolved -> "true") ++
      (if (write.withSchemaEvolution) Map("mergeSchema" -> "true") else Map.empty)
    val query = table match {
      case _: HeadwaterStagedTable => write.query
      case _ => matchColumns(session, table, write.query, options, write.isByName)
    }
    val marked = relation.copy(options = new CaseInsensitiveStringMap(options.asJava))
    write match {
      case a: AppendData => a.copy(table = marked, query = query, writeOptions = options)
      case o: OverwriteByExpression =>
        o.copy(table = marked, query = query, writeOptions = options, deleteExpr = Literal.TrueLiteral)
      // Spark has no dynamic overwrite for V1 writes; the options tell the handler.
      case o: OverwritePartitionsDynamic =>
        OverwriteByExpression(marked, Literal.TrueLiteral, query, options, o.isByName, o.withSchemaEvolution)
      case other => other
    }
  }

  private def unsupported(predicate: Expression): String =
    Bridge.call(new StatementContext(session), "unsupported_predicate", "predicate" -> predicate.sql).asText()

  private def optionsOf(write: V2WriteCommand): Map[String, String] = write match {
    case a: AppendData => a.writeOptions
    case o: OverwriteByExpression => o.writeOptions
    case o: OverwritePartitionsDynamic => o.writeOptions
    case _ => Map.empty
  }
}

object ResolveHeadwaterWrites {
  val Resolved = "__headwater_resolved"
  val OverwriteMode = "__headwater_mode"
  val ReplaceWhere = "__headwater_replace_where"

  def matchColumns(
      session: SparkSession, table: HeadwaterTable, query: LogicalPlan, options: Map[String, String], byName: Boolean, casts: Boolean = true): LogicalPlan = {
    val answer = Bridge.call(
      new StatementContext(session), "resolve_write",
      "table" -> table.path,
      "name" -> table.name(),
      "version" -> table.snapshotVersion,
      "schema" -> query.schema.json,
      "byName" -> byName,
      "options" -> options)
    val expected = DataType.fromJson(answer.get("schema").asText()).asInstanceOf[StructType]
    SparkInternals.resolveOutput(session, table.name(), SparkInternals.attributes(expected), query, byName, casts)
  }
}
