package headwater.spark.write

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.TableOutputResolver
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Assignment, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.SQLConf.StoreAssignmentPolicy

/**
 * Casts values to columns by the session's store assignment policy. Under ANSI, Spark rejects some pairs of types, such as STRING to INT,
 * whatever the values are. For a Delta table such a value is cast, and one that does not fit is the error of its row. To place the casts,
 * this uses Spark's rules under the policy LEGACY, which rejects no pair, and then makes the casts fail instead of returning null.
 */
object StoreAssignment {
  private val Refused = "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST"
  /** Delta's own setting: UPDATE and MERGE cast values as `spark.sql.ansi.enabled` says, whatever the policy is. */
  private val FollowsAnsi = "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag"

  /** The query with the columns of a table. `resolve` is Spark's own rule for that, under the settings it is given. */
  def columns(conf: SQLConf, query: LogicalPlan)(resolve: SQLConf => LogicalPlan): LogicalPlan = try resolve(conf)
  catch {
    case refused: AnalysisException if casts(conf, refused) =>
      resolve(legacy(conf)) match {
        case Project(columns, `query`) =>
          val cast = columns.map(column => failing(column, Nil).asInstanceOf[NamedExpression])
          if (cast.forall(_.resolved)) Project(cast, query) else throw refused
        case _ => throw refused
      }
  }

  /** The values of assignments, each cast to its column's type. `align` is Spark's own rule for that, under the current settings. */
  def values(conf: SQLConf, assignments: Seq[Assignment])(align: Seq[Assignment] => Seq[Assignment]): Seq[Expression] = {
    if (conf.getConfString(FollowsAnsi, "false").toBoolean) {
      val ansi = conf.ansiEnabled
      cast(conf, assignments, align, _.transform { case cast: Cast => Cast(cast.child, cast.dataType, cast.timeZoneId, ansi) })
    } else try align(assignments).map(_.value)
    catch {
      case refused: AnalysisException if casts(conf, refused) =>
        val values = cast(conf, assignments, align, failing(_, Nil))
        if (values.forall(_.resolved)) values else throw refused
    }
  }

  /** Places casts over attributes that stand for the values, so that the new casts are not confused with casts inside the values. */
  private def cast(
      conf: SQLConf,
      assignments: Seq[Assignment],
      align: Seq[Assignment] => Seq[Assignment],
      change: Expression => Expression): Seq[Expression] = {
    val placeholders = assignments.map(assignment => AttributeReference("value", assignment.value.dataType, assignment.value.nullable)())
    val values = placeholders.map(_.exprId).zip(assignments.map(_.value)).toMap
    val aligned = SQLConf.withExistingConf(legacy(conf)) {
      align(assignments.zip(placeholders).map { case (assignment, value) => assignment.copy(value = value) })
    }
    aligned.map(assignment =>
      change(assignment.value).transform { case a: AttributeReference if values.contains(a.exprId) => values(a.exprId) })
  }

  private def casts(conf: SQLConf, refused: AnalysisException): Boolean =
    conf.storeAssignmentPolicy == StoreAssignmentPolicy.ANSI && Option(refused.getCondition).exists(_.startsWith(Refused))

  private def legacy(conf: SQLConf): SQLConf = {
    val copy = conf.clone()
    copy.setConfString(SQLConf.STORE_ASSIGNMENT_POLICY.key, StoreAssignmentPolicy.LEGACY.toString)
    copy
  }

  /** Makes casts fail if a value does not fit, as Spark's do under the policy ANSI. `path` leads to the column or field. */
  private def failing(expression: Expression, path: Seq[String]): Expression = expression match {
    case named: Alias => named.withNewChildren(Seq(failing(named.child, path :+ named.name)))
    case cast: Cast =>
      val ansi = Cast(failing(cast.child, path), cast.dataType, cast.timeZoneId, ansiEnabled = true)
      ansi.setTagValue(Cast.BY_TABLE_INSERTION, ())
      if (ansi.resolved) TableOutputResolver.checkCastOverflowInTableInsert(ansi, path.map(quoteIfNeeded).mkString(".")) else ansi
    case other => other.mapChildren(failing(_, path))
  }
}
