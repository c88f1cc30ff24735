package tessera;

import com.mongodb.MongoException;
import com.mongodb.client.ChangeStreamIterable;
import com.mongodb.client.MongoChangeStreamCursor;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.changestream.ChangeStreamDocument;
import java.util.concurrent.TimeUnit;
import org.bson.BsonDocument;
import org.bson.Document;

/**
 * Follows a collection while its server goes away and comes back; clients/mongo/README.md says how:
 * {@code mongodb://HOST:PORT}.
 */
public final class MongoFollow {
  /** Every so many events the stream is opened anew. */
  private static final int REOPEN = 20;

  private final MongoCollection<Document> things;
  private BsonDocument token;
  private int count;
  private boolean isReady;

  private MongoFollow(MongoCollection<Document> things) {
    this.things = things;
  }

  public static void main(String[] arguments) {
    try (MongoClient client =
        MongoClients.create(arguments[0] + "?serverSelectionTimeoutMS=20000")) {
      new MongoFollow(client.getDatabase("followed").getCollection("things")).follow();
    }
  }

  private void follow() {
    boolean isOver = false;
    while (!isOver) {
      try (MongoChangeStreamCursor<ChangeStreamDocument<Document>> cursor = open().cursor()) {
        if (!isReady) {
          System.out.println("ready");
          isReady = true;
        }
        do {
          isOver = tell(cursor.next());
        } while (!isOver && count % REOPEN != 0);
      } catch (MongoException error) {
        System.out.println("met " + error);
        if (token == null) {
          throw error;
        }
      }
    }
  }

  private ChangeStreamIterable<Document> open() {
    ChangeStreamIterable<Document> stream = things.watch().maxAwaitTime(500, TimeUnit.MILLISECONDS);
    if (token == null) {
      return stream;
    }
    return count / REOPEN % 2 == 0 ? stream.resumeAfter(token) : stream.startAfter(token);
  }

  private boolean tell(ChangeStreamDocument<Document> event) {
    count++;
    token = event.getResumeToken();
    String key = event.getDocumentKey().getString("_id").getValue();
    System.out.println("event " + count + " " + event.getOperationType().getValue() + " " + key);
    return key.equals("end");
  }
}
