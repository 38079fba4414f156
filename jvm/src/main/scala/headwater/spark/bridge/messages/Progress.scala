package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/progress.py.

import headwater.spark.bridge.wire.{Call, Message}

final case class RunningJob(
    description: Option[String] = None,
    group: Option[String] = None,
    done: Long,
    tasks: Long,
    rowsRead: Long,
    bytesRead: Long,
    rowsWritten: Long) extends Message

final case class ShowJobsRequest(jobs: Seq[RunningJob], streams: Seq[String]) extends Call[Option[String]]("show_jobs")
