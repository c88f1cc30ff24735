// Walks over the MongoDB front end with the Go driver.
//
//	go run ./mongo [-ca FILE] [-compressors NAMES] mongodb://127.0.0.1:27017
package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"tessera.example/walks/walk"
)

func main() {
	report := walk.Begin()
	report.Finish(run(walk.Read(), report))
}

func run(asked walk.Options, report *walk.Report) error {
	settings := options.Client().ApplyURI(asked.Endpoint).SetServerSelectionTimeout(5 * time.Second)
	trust, err := asked.Trust()
	if err != nil {
		return err
	}
	if trust != nil {
		settings.SetTLSConfig(trust)
	}
	if asked.Compressors != "" {
		settings.SetCompressors(strings.Split(asked.Compressors, ","))
	}
	client, err := mongo.Connect(settings)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer client.Disconnect(ctx)
	database := client.Database(walk.Name())
	defer database.Drop(ctx)
	for _, part := range []func(context.Context, *mongo.Database, *walk.Report) error{
		documents, cursors, transactions, sharding,
	} {
		if err := part(ctx, database, report); err != nil {
			return err
		}
	}
	return nil
}

func code(err error, expected int) bool {
	var refusal mongo.ServerError
	return errors.As(err, &refusal) && refusal.HasErrorCode(expected)
}

func documents(ctx context.Context, database *mongo.Database, report *walk.Report) error {
	report.Area = "documents"
	all := database.Collection("documents")
	inserted, err := all.InsertOne(ctx, bson.D{{"_id", 1}, {"n", 1}})
	if err != nil {
		return err
	}
	report.Check("InsertOne: the id that was given", any(int32(1)), inserted.InsertedID, nil)
	_, err = all.InsertOne(ctx, bson.D{{"_id", 1}})
	report.Refused("InsertOne: the same id again", code(err, 11000), err)
	every := bson.D{
		{"_id", "all"}, {"double", 1.5}, {"text", "Grüße"}, {"list", bson.A{int32(1), "2"}},
		{"id", bson.ObjectID{7}}, {"true", true}, {"null", nil}, {"long", int64(1) << 60},
		{"date", bson.DateTime(1_700_000_000_123)}, {"document", bson.D{{"a", int32(1)}}},
	}
	if _, err := all.InsertOne(ctx, every); err != nil {
		return err
	}
	var found bson.D
	err = all.FindOne(ctx, bson.D{{"_id", "all"}}).Decode(&found)
	report.Check("every type comes back as it was", every, found, err)
	change := bson.D{{"$inc", bson.D{{"n", 1}}}, {"$push", bson.D{{"list", 5}}}}
	updated, err := all.UpdateOne(ctx, bson.D{{"_id", 1}}, change)
	if err != nil {
		return err
	}
	report.Check("UpdateOne", []int64{1, 1}, []int64{updated.MatchedCount, updated.ModifiedCount}, nil)
	after := options.FindOneAndUpdate().SetReturnDocument(options.After)
	var changed bson.D
	err = all.FindOneAndUpdate(ctx, bson.D{{"_id", 1}}, bson.D{{"$mul", bson.D{{"n", 5}}}}, after).
		Decode(&changed)
	expected := bson.D{{"_id", int32(1)}, {"n", int32(10)}, {"list", bson.A{int32(5)}}}
	report.Check("FindOneAndUpdate: after", expected, changed, err)
	deleted, err := all.DeleteMany(ctx, bson.D{})
	if err != nil {
		return err
	}
	report.Check("DeleteMany", int64(2), deleted.DeletedCount, nil)
	err = all.FindOne(ctx, bson.D{{"n", bson.D{{"$nope", 1}}}}).Err()
	report.Refused("an operator that does not exist", code(err, 2), err)
	return nil
}

func cursors(ctx context.Context, database *mongo.Database, report *walk.Report) error {
	report.Area = "cursors"
	all := database.Collection("cursors")
	var many []any
	var evens []int32
	for n := range int32(250) {
		many = append(many, bson.D{{"_id", n}, {"even", n%2 == 0}})
		if n%2 == 0 {
			evens = append(evens, n)
		}
	}
	if _, err := all.InsertMany(ctx, many); err != nil {
		return err
	}
	sorted := options.Find().SetSort(bson.D{{"_id", 1}}).SetBatchSize(7)
	cursor, err := all.Find(ctx, bson.D{{"even", true}}, sorted)
	if err != nil {
		return err
	}
	var found []struct {
		ID int32 `bson:"_id"`
	}
	err = cursor.All(ctx, &found)
	var ids []int32
	for _, one := range found {
		ids = append(ids, one.ID)
	}
	report.Check("Find in batches, sorted", evens, ids, err)
	cursor, err = all.Aggregate(ctx, mongo.Pipeline{
		{{"$match", bson.D{{"_id", bson.D{{"$lt", 10}}}}}},
		{{"$group", bson.D{{"_id", "$even"}, {"sum", bson.D{{"$sum", "$_id"}}}}}},
		{{"$sort", bson.D{{"_id", 1}}}},
	})
	if err != nil {
		return err
	}
	var groups []bson.D
	err = cursor.All(ctx, &groups)
	report.Check("Aggregate", []bson.D{
		{{"_id", false}, {"sum", int32(25)}}, {{"_id", true}, {"sum", int32(20)}},
	}, groups, err)
	return nil
}

func transactions(ctx context.Context, database *mongo.Database, report *walk.Report) error {
	report.Area = "transactions"
	accounts := database.Collection("accounts")
	opened := []any{bson.D{{"_id", "a"}, {"n", 10}}, bson.D{{"_id", "b"}, {"n", 0}}}
	if _, err := accounts.InsertMany(ctx, opened); err != nil {
		return err
	}
	balances := func() ([]int32, error) {
		cursor, err := accounts.Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{"_id", 1}}))
		if err != nil {
			return nil, err
		}
		var found []struct{ N int32 }
		err = cursor.All(ctx, &found)
		var all []int32
		for _, one := range found {
			all = append(all, one.N)
		}
		return all, err
	}
	session, err := database.Client().StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	move := func(ctx context.Context) (any, error) {
		for id, change := range map[string]int{"a": -3, "b": 3} {
			change := bson.D{{"$inc", bson.D{{"n", change}}}}
			if _, err := accounts.UpdateOne(ctx, bson.D{{"_id", id}}, change); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	if _, err := session.WithTransaction(ctx, move); err != nil {
		return err
	}
	found, err := balances()
	report.Check("WithTransaction: both or none", []int32{7, 3}, found, err)
	stop := errors.New("stop")
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		if _, err := move(ctx); err != nil {
			return nil, err
		}
		return nil, stop
	})
	report.Refused("an error aborts", errors.Is(err, stop), err)
	found, err = balances()
	report.Check("and nothing is changed", []int32{7, 3}, found, err)
	return nil
}

func sharding(ctx context.Context, database *mongo.Database, report *walk.Report) error {
	report.Area = "sharding"
	namespace := database.Name() + ".people"
	var answer struct{ Collectionsharded string }
	command := bson.D{{"shardCollection", namespace}, {"key", bson.D{{"city", "hashed"}}}}
	err := database.Client().Database("admin").RunCommand(ctx, command).Decode(&answer)
	report.Check("shardCollection", namespace, answer.Collectionsharded, err)
	people := database.Collection("people")
	for n := range 40 {
		if _, err := people.InsertOne(ctx, bson.D{{"_id", n}, {"city", n % 4}}); err != nil {
			return err
		}
	}
	count, err := people.CountDocuments(ctx, bson.D{{"city", 1}})
	report.Check("documents of one shard key", int64(10), count, err)
	return nil
}
