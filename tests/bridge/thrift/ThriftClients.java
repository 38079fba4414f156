import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.hive.service.auth.PlainSaslHelper;
import org.apache.hive.service.rpc.thrift.*;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransport;

/**
 * Clients of a Thrift server, each a session on a connection of its own: {@code java -cp "<pyspark>/jars/*" ThriftClients.java PORT}.
 *
 * Reads a JSON object a line: {@code {"do": "open" | "close" | "drop" | "run" | "columns", "client": …, "sql": …, "async": …}}. Answers each
 * with {@code {"rows": […]}}, of the first column only, or {@code {"error": …}}. JDBC runs statements asynchronously; ODBC and PyHive do not.
 */
public class ThriftClients {
  record Client(TTransport transport, TCLIService.Client service, TSessionHandle session) {}

  static final ObjectMapper JSON = new ObjectMapper();
  static final Map<String, Client> clients = new HashMap<>();

  static Client open(int port) throws Exception {
    TTransport transport = PlainSaslHelper.getPlainTransport("someone", "any", new TSocket("127.0.0.1", port));
    transport.open();
    TCLIService.Client service = new TCLIService.Client(new TBinaryProtocol(transport));
    TOpenSessionReq request = new TOpenSessionReq();
    request.setUsername("someone");
    request.setConfiguration(Map.of("use:database", "default"));
    TOpenSessionResp answer = service.OpenSession(request);
    check(answer.getStatus());
    return new Client(transport, service, answer.getSessionHandle());
  }

  static void check(TStatus status) {
    if (status.getStatusCode() == TStatusCode.ERROR_STATUS) throw new IllegalStateException(status.getErrorMessage());
  }

  static List<String> run(Client client, String sql, boolean async) throws Exception {
    TExecuteStatementReq request = new TExecuteStatementReq(client.session, sql);
    request.setRunAsync(async);
    TExecuteStatementResp answer = client.service.ExecuteStatement(request);
    check(answer.getStatus());
    TOperationHandle operation = answer.getOperationHandle();
    TGetOperationStatusResp state = client.service.GetOperationStatus(new TGetOperationStatusReq(operation));
    while (state.getOperationState() == TOperationState.PENDING_STATE || state.getOperationState() == TOperationState.RUNNING_STATE
        || state.getOperationState() == TOperationState.INITIALIZED_STATE) {
      Thread.sleep(20);
      state = client.service.GetOperationStatus(new TGetOperationStatusReq(operation));
    }
    if (state.getOperationState() != TOperationState.FINISHED_STATE) throw new IllegalStateException(state.getErrorMessage());
    TFetchResultsResp fetched = client.service.FetchResults(new TFetchResultsReq(operation, TFetchOrientation.FETCH_NEXT, 1000));
    check(fetched.getStatus());
    List<String> rows = new ArrayList<>();
    for (TColumn column : fetched.getResults().getColumns()) {
      List<?> values = (List<?>) ((Object) switch (column.getSetField()) {
        case STRING_VAL -> column.getStringVal().getValues();
        case I64_VAL -> column.getI64Val().getValues();
        case I32_VAL -> column.getI32Val().getValues();
        default -> List.of(column.getSetField().toString());
      });
      values.forEach(value -> rows.add(String.valueOf(value)));
      break;
    }
    client.service.CloseOperation(new TCloseOperationReq(operation));
    return rows;
  }

  /** Name, type and comment of each column of a table, as the service itself lists them. */
  static List<String> columns(Client client, String table) throws Exception {
    TGetColumnsReq request = new TGetColumnsReq(client.session);
    request.setTableName(table);
    TGetColumnsResp answer = client.service.GetColumns(request);
    check(answer.getStatus());
    TFetchResultsReq fetch = new TFetchResultsReq(answer.getOperationHandle(), TFetchOrientation.FETCH_NEXT, 1000);
    TFetchResultsResp fetched = client.service.FetchResults(fetch);
    check(fetched.getStatus());
    List<TColumn> listed = fetched.getResults().getColumns();
    List<String> names = listed.get(3).getStringVal().getValues();
    List<String> rows = new ArrayList<>();
    for (int row = 0; row < names.size(); row++) {
      rows.add(names.get(row) + " " + listed.get(5).getStringVal().getValues().get(row) + " "
          + listed.get(11).getStringVal().getValues().get(row));
    }
    return rows;
  }

  static Object answer(JsonNode asked, int port) {
    String name = asked.get("client").asText();
    try {
      switch (asked.get("do").asText()) {
        case "open" -> clients.put(name, open(port));
        case "close" -> {
          Client client = clients.remove(name);
          client.service.CloseSession(new TCloseSessionReq(client.session));
          client.transport.close();
        }
        case "drop" -> clients.remove(name).transport.close();
        case "columns" -> {
          return Map.of("rows", columns(clients.get(name), asked.get("sql").asText()));
        }
        default -> {
          return Map.of("rows", run(clients.get(name), asked.get("sql").asText(), asked.get("async").asBoolean()));
        }
      }
      return Map.of("rows", List.of());
    } catch (Exception error) {
      return Map.of("error", String.valueOf(error.getMessage()));
    }
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line), Integer.parseInt(arguments[0]))));
      System.out.flush();
    }
  }
}
