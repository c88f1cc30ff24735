package tessera;

import com.mongodb.MongoException;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.ReturnDocument;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.stream.IntStream;
import org.bson.Document;
import org.bson.types.Decimal128;
import org.bson.types.ObjectId;

/** Walks over the MongoDB front end with the Java driver: {@code mongodb://HOST:PORT}. */
public final class MongoWalk {
  public static void main(String[] arguments) {
    Report report = new Report();
    try (MongoClient client = MongoClients.create(arguments[0])) {
      MongoDatabase database = client.getDatabase("walk_" + Long.toHexString(System.nanoTime()));
      try {
        documents(database, report);
        cursors(database, report);
        transactions(client, database, report);
        sharding(client, database, report);
      } finally {
        database.drop();
      }
    }
    report.finish();
  }

  private static boolean has(Exception error, int code) {
    return error instanceof MongoException refusal && refusal.getCode() == code;
  }

  private static void documents(MongoDatabase database, Report report) {
    report.area("documents");
    MongoCollection<Document> all = database.getCollection("documents");
    all.insertOne(new Document("_id", 1).append("n", 1));
    report.refused(
        "insertOne: the same id again",
        error -> has(error, 11000),
        () -> all.insertOne(new Document("_id", 1)));
    Document every =
        new Document("_id", "all")
            .append("double", 1.5)
            .append("text", "Grüße")
            .append("list", List.of(1, "2"))
            .append("id", new ObjectId("0123456789abcdef01234567"))
            .append("null", null)
            .append("long", 1L << 60)
            .append("date", new Date(1_700_000_000_123L))
            .append("decimal", Decimal128.parse("1.10"));
    all.insertOne(every);
    report.check(
        "every type comes back as it was", every, () -> all.find(new Document("_id", "all")).first());
    report.check(
        "updateOne",
        1L,
        () ->
            all.updateOne(new Document("_id", 1), new Document("$inc", new Document("n", 1)))
                .getModifiedCount());
    report.check(
        "findOneAndUpdate: after",
        new Document("_id", 1).append("n", 10),
        () ->
            all.findOneAndUpdate(
                new Document("_id", 1),
                new Document("$mul", new Document("n", 5)),
                new FindOneAndUpdateOptions().returnDocument(ReturnDocument.AFTER)));
    report.check("deleteMany", 2L, () -> all.deleteMany(new Document()).getDeletedCount());
    report.refused(
        "an operator that does not exist",
        error -> has(error, 2),
        () -> all.find(new Document("n", new Document("$nope", 1))).first());
  }

  private static void cursors(MongoDatabase database, Report report) {
    report.area("cursors");
    MongoCollection<Document> all = database.getCollection("cursors");
    all.insertMany(IntStream.range(0, 250).mapToObj(n -> new Document("_id", n)).toList());
    report.check(
        "find in batches, sorted",
        IntStream.range(100, 250).boxed().toList(),
        () -> {
          var filter = new Document("_id", new Document("$gte", 100));
          var found = all.find(filter).sort(new Document("_id", 1)).batchSize(7);
          return found.map(document -> document.getInteger("_id")).into(new ArrayList<>());
        });
    report.check(
        "aggregate",
        List.of(new Document("_id", null).append("sum", 31125)),
        () ->
            all.aggregate(
                    List.of(
                        new Document(
                            "$group",
                            new Document("_id", null)
                                .append("sum", new Document("$sum", "$_id")))))
                .into(new ArrayList<>()));
  }

  private static void transactions(MongoClient client, MongoDatabase database, Report report) {
    report.area("transactions");
    MongoCollection<Document> accounts = database.getCollection("accounts");
    accounts.insertMany(
        List.of(
            new Document("_id", "a").append("n", 10), new Document("_id", "b").append("n", 0)));
    try (ClientSession session = client.startSession()) {
      report.check(
          "withTransaction: both or none",
          List.of(7, 3),
          () -> {
            session.withTransaction(() -> move(accounts, session));
            return balances(accounts);
          });
      report.check(
          "abort",
          List.of(7, 3),
          () -> {
            session.startTransaction();
            move(accounts, session);
            session.abortTransaction();
            return balances(accounts);
          });
    }
  }

  private static Object move(MongoCollection<Document> accounts, ClientSession session) {
    accounts.updateOne(
        session, new Document("_id", "a"), new Document("$inc", new Document("n", -3)));
    return accounts.updateOne(
        session, new Document("_id", "b"), new Document("$inc", new Document("n", 3)));
  }

  private static List<Integer> balances(MongoCollection<Document> accounts) {
    return accounts
        .find()
        .sort(new Document("_id", 1))
        .map(document -> document.getInteger("n"))
        .into(new ArrayList<>());
  }

  private static void sharding(MongoClient client, MongoDatabase database, Report report) {
    report.area("sharding");
    String namespace = database.getName() + ".people";
    report.check(
        "shardCollection",
        namespace,
        () ->
            client
                .getDatabase("admin")
                .runCommand(
                    new Document("shardCollection", namespace)
                        .append("key", new Document("city", "hashed")))
                .getString("collectionsharded"));
    MongoCollection<Document> people = database.getCollection("people");
    people.insertMany(
        IntStream.range(0, 40).mapToObj(n -> new Document("_id", n).append("city", n % 4)).toList());
    report.check(
        "documents of one shard key", 10L, () -> people.countDocuments(new Document("city", 1)));
  }
}
