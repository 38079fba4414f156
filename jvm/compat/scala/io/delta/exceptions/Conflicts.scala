package io.delta.exceptions

import headwater.spark.HeadwaterException

/** Another commit came first and conflicts with this one, which wrote nothing. It is also an `AnalysisException`. */
abstract class DeltaConcurrentModificationException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends HeadwaterException(condition, state, text, parameters)

/** Another statement changed what this one builds on. */
class ConcurrentWriteException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends DeltaConcurrentModificationException(condition, state, text, parameters)

/** Another statement changed schema, properties or partitions. */
class MetadataChangedException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends DeltaConcurrentModificationException(condition, state, text, parameters)

/** Another statement changed the table's protocol. */
class ProtocolChangedException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends DeltaConcurrentModificationException(condition, state, text, parameters)

/** Another statement added files that this one should have read. */
class ConcurrentAppendException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends DeltaConcurrentModificationException(condition, state, text, parameters)

/** Another statement removed a file that this one had read. */
class ConcurrentDeleteReadException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends DeltaConcurrentModificationException(condition, state, text, parameters)

/** Another statement removed a file that this one removes as well. */
class ConcurrentDeleteDeleteException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends DeltaConcurrentModificationException(condition, state, text, parameters)

/** Another writer has the same transaction identifier. */
class ConcurrentTransactionException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends DeltaConcurrentModificationException(condition, state, text, parameters)
