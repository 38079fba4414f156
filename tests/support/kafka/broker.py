"""A Kafka broker that is its own controller (KRaft): one small JVM that listens on loopback alone, and its topics.

Owns the broker's JARs and those of Spark's connector, which Maven fetches (``broker.xml``, ``connector.xml``).
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.jvms import Jvm, fetched

_SETTINGS = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
log.dirs={home}/logs
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.cleaner.dedupe.buffer.size=2097152
num.network.threads=1
num.io.threads=2
"""
#: Options of a producer that does not wait a minute for a broker that is gone, but as long as a busy machine needs.
IMPATIENT = {"kafka.max.block.ms": "5000", "kafka.delivery.timeout.ms": "6000", "kafka.request.timeout.ms": "4000"}
_OPTIONS = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def connector_jars() -> list[str]:
    """The JARs that make a Spark read and write topics: what ``--packages`` brings a user."""
    return [str(jar) for jar in fetched(Path(__file__).with_name("connector.xml"))]


class Broker:
    """A broker whose files lie in ``home``; it keeps its port and its topics when it is started again.

    ``servers`` is its address, as ``kafka.bootstrap.servers`` takes it. It makes no topic by itself.
    """

    def __init__(self, home: Path) -> None:
        self._properties = home / "server.properties"
        # The port must still be free when the broker returns, so it is none that the system gives to others meanwhile.
        port, controller = _free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        self._properties.write_text(_SETTINGS.format(port=port, controller=controller, home=home))
        self._jvm: Jvm | None = None
        self._producer: Any = None
        java = self._begin()
        command = ["format", "--standalone", "-t", java.org.apache.kafka.common.Uuid.randomUuid().toString()]
        told = java.java.io.ByteArrayOutputStream()
        arguments = self._strings([*command, "-c", str(self._properties)])
        assert java.kafka.tools.StorageTool.execute(arguments, java.java.io.PrintStream(told)) == 0, told.toString()
        self._serve(java)

    def bytes_of(self, topic: str) -> int:
        """How many bytes of messages a topic has, over all of its partitions."""
        return sum(file.stat().st_size for file in self._properties.parent.glob(f"logs/{topic}-*/*.log"))

    def start(self) -> None:
        """Come back after :meth:`kill`."""
        assert self._jvm is None, "it runs"
        self._serve(self._begin())

    def kill(self) -> None:
        """End at once, as a machine does that is switched off."""
        assert self._jvm is not None, "it does not run"
        self._jvm.kill()
        self._jvm = None

    def create_topic(self, name: str, partitions: int = 1) -> None:
        admin = self._java.org.apache.kafka.clients.admin.Admin.create({"bootstrap.servers": self.servers})
        try:
            topic = self._java.org.apache.kafka.clients.admin.NewTopic(name, partitions, 1)
            admin.createTopics([topic]).all().get()
        finally:
            admin.close()

    def send(self, topic: str, messages: Iterable[tuple[str | None, str | None]]) -> None:
        """Messages as keys and values, in this order; they are in the topic when this returns. A value of ``None`` is
        a tombstone."""
        record = self._java.org.apache.kafka.clients.producer.ProducerRecord
        sent = [self._producer.send(record(topic, key, value)) for key, value in messages]
        for future in sent:
            future.get()

    @property
    def _java(self) -> Any:
        assert self._jvm is not None, "it does not run"
        return self._jvm.gateway.jvm

    def _begin(self) -> Any:
        self._jvm = Jvm([str(jar) for jar in fetched(Path(__file__).with_name("broker.xml"))], _OPTIONS)
        return self._java

    def _serve(self, java: Any) -> None:
        settings = java.org.apache.kafka.common.utils.Utils.loadProps(str(self._properties))
        kafka = java.kafka.server
        kafka.KafkaRaftServer(
            kafka.KafkaConfig.fromProps(settings), java.org.apache.kafka.common.utils.Time.SYSTEM
        ).startup()
        text = "org.apache.kafka.common.serialization.StringSerializer"
        self._producer = java.org.apache.kafka.clients.producer.KafkaProducer(
            {"bootstrap.servers": self.servers, "key.serializer": text, "value.serializer": text}
        )

    def _strings(self, values: list[str]) -> Any:
        array = self._jvm.gateway.new_array(self._java.java.lang.String, len(values))
        for position, value in enumerate(values):
            array[position] = value
        return array


def _free_ports(count: int) -> list[int]:
    """Ports below those that systems give to whoever asks for any, that nobody listens on now."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as probe:
            if port not in found and probe.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
    return found
