package headwater.spark.bridge

import scala.collection.mutable

import headwater.spark.bridge.messages.StoreIdentity

/**
 * What was given to reach each path of a statement: that of the table which the path lies in, whose root is the longest one. Files
 * elsewhere are those that the log of the statement's own table, the first one, refers to.
 */
private[bridge] final class StoresByRoot(locations: Seq[TableLocation]) {
  private val known = mutable.ArrayBuffer.from(locations)

  /** One more table. What was given for another one at the same root stands. */
  def add(location: TableLocation): Unit = synchronized(known += location)

  /** What a root is reached with from here on. */
  def replace(root: String, store: StoreOptions): Unit =
    synchronized(known.mapInPlace(of => if (of.path == root) of.copy(store = store) else of))

  def all: Seq[TableLocation] = synchronized(known.toSeq)

  def at(path: String): StoreOptions = {
    val found = all
    if (found.forall(_.store.isEmpty)) StoreOptions.none
    else found.filter(location => StoresByRoot.lies(path, location.path)).maxByOption(_.path.length).orElse(found.headOption)
      .fold(StoreOptions.none)(_.store)
  }

  /** The same for the handler, which is told nothing but what differs. */
  def identities: Seq[StoreIdentity] = {
    val found = all
    if (found.forall(_.store.isEmpty)) Nil else found.map(of => StoreIdentity(of.path, of.store.identity, of.store.managed))
  }
}

private object StoresByRoot {
  private def lies(path: String, root: String): Boolean =
    path.startsWith(root) && (path.length == root.length || root.endsWith("/") || path.charAt(root.length) == '/')
}
