// Follows a collection while its server goes away and comes back; clients/mongo/README.md says how.
//
//	go run ./follow mongodb://127.0.0.1:27017
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Every so many events the stream is opened anew.
const reopen = 20

type event struct {
	ID        bson.Raw `bson:"_id"`
	Operation string   `bson:"operationType"`
	Key       struct {
		ID string `bson:"_id"`
	} `bson:"documentKey"`
}

// follower is what is kept from one stream to the next.
type follower struct {
	things *mongo.Collection
	token  bson.Raw
	count  int
	isOver bool
}

func main() {
	settings := options.Client().ApplyURI(os.Args[1]).SetServerSelectionTimeout(20 * time.Second)
	client, err := mongo.Connect(settings)
	if err != nil {
		log.Fatal(err)
	}
	one := follower{things: client.Database("followed").Collection("things")}
	for !one.isOver {
		if err := one.follow(context.Background()); err != nil {
			fmt.Printf("met %.200v\n", err)
			if one.token == nil {
				os.Exit(1)
			}
		}
	}
}

// follow opens a stream and reads it for a while.
func (one *follower) follow(ctx context.Context) error {
	asked := options.ChangeStream().SetMaxAwaitTime(500 * time.Millisecond)
	switch {
	case one.token == nil:
	case one.count/reopen%2 == 0:
		asked.SetResumeAfter(one.token)
	default:
		asked.SetStartAfter(one.token)
	}
	stream, err := one.things.Watch(ctx, mongo.Pipeline{}, asked)
	if err != nil {
		return err
	}
	defer stream.Close(ctx)
	if one.token == nil {
		fmt.Println("ready")
	}
	for stream.Next(ctx) {
		var found event
		if err := stream.Decode(&found); err != nil {
			log.Fatal(err)
		}
		one.token = found.ID
		one.count++
		fmt.Println("event", one.count, found.Operation, found.Key.ID)
		one.isOver = found.Key.ID == "end"
		if one.isOver || one.count%reopen == 0 {
			return nil
		}
	}
	return stream.Err()
}
