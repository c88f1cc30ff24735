// Typed into mongosh line by line. What it prints is in session.txt. The area of the cases that
// follow stands in a comment of its own.
// area administration
show dbs
use walk
// area documents
db.people.insertOne({ _id: 1, name: "Ann", city: "Bern", age: 41 })
db.people.insertMany([{ _id: 2, name: "Bob", city: "Graz", age: 35 }, { _id: 3, name: "Cleo", city: "Bern", age: 29 }])
db.people.find()
db.people.find({ city: "Bern" }, { name: 1 }).sort({ name: -1 })
db.people.findOne({ _id: 2 })
db.people.updateOne({ _id: 2 }, { $set: { city: "Linz" }, $inc: { age: 1 } })
db.people.updateMany({}, { $push: { seen: 1 } })
db.people.findOneAndUpdate({ _id: 3 }, { $unset: { seen: "" } }, { returnDocument: "after" })
db.people.deleteOne({ _id: 3 })
db.people.countDocuments({})
db.people.distinct("city")
db.people.insertOne({ _id: 1 })
db.people.updateOne({ _id: 1 }, { $frobnicate: { a: 1 } })
// area cursors
show collections
for (let n = 0; n < 45; n += 1) db.numbers.insertOne({ _id: n, even: n % 2 === 0 })
db.numbers.find({}, { even: 0 })
it
it
// area indexes
db.numbers.createIndex({ even: 1 })
db.numbers.getIndexes()
db.numbers.find({ even: true }).explain().queryPlanner.winningPlan.stage
db.numbers.find({ even: true }).explain("executionStats").executionStats.totalDocsExamined
// area pipelines
db.numbers.aggregate([{ $group: { _id: "$even", n: { $sum: 1 } } }, { $sort: { _id: 1 } }])
// area administration
db.numbers.stats().count
// area sharding
sh.enableSharding("walk")
sh.shardCollection("walk.cities", { country: "hashed" })
db.cities.insertMany([{ _id: 1, country: "CH" }, { _id: 2, country: "AT" }, { _id: 3, country: "CH" }]).acknowledged
db.cities.insertOne({ _id: 4 })
db.cities.find({ country: "CH" }).sort({ _id: 1 })
sh.reshardCollection("walk.cities", { _id: "hashed" }).ok
db.cities.countDocuments()
sh.status()
// area transactions
const session = db.getMongo().startSession()
session.startTransaction()
session.getDatabase("walk").people.updateOne({ _id: 1 }, { $inc: { age: 1 } })
db.people.findOne({ _id: 1 }).age
session.commitTransaction().ok
db.people.findOne({ _id: 1 }).age
session.startTransaction()
session.getDatabase("walk").people.deleteMany({}).deletedCount
session.abortTransaction().ok
db.people.countDocuments()
// The commands of the users' documents, as they stand there.
// area sharding
db.runCommand( { shardCollection: "admin.people", key: { region: "hashed" } } )
use cosmicworks;
db.employee.insertOne({
    "firstName": "Steve",
    "lastName": "Smith",
    "companyName": "Microsoft",
    "division": "Azure",
    "subDivision": "Data & AI",
    "timeInOrgInYears": 7
}).acknowledged
sh.shardCollection("cosmicworks.employee", {"firstName": "hashed"})
db.adminCommand({
  "shardCollection": "cosmicworks.employee",
  "key": {"firstName": "hashed"}
})
sh.reshardCollection("cosmicworks.employee", {"lastName": "hashed"})
db.adminCommand({
  "reshardCollection": "cosmicworks.employee",
  "key": {"lastName": "hashed"}
})
db.runCommand({
  createIndexes: "employee",
  indexes: [{"key":{"firstName":1}, "name":"firstName_1", "enableLargeIndexKeys": true}],
  blocking: true
})
db.employee.getShardDistribution()
db.employee.find({ lastName: "Smith" }, { _id: 0 }).explain("executionStats").executionStats.totalDocsExamined
db.employee.find({ lastName: "Smith" }).explain("allPlansExecution").ok
db.dropDatabase()
use admin
db.people.drop()
use walk
// area access
db.createUser({ user: "guest", pwd: "secret", roles: ["read"] })
db.getUsers().users.map(({ user, roles }) => [user, roles])
db.auth("guest", "wrong")
db.auth("guest", "secret")
db.logout().ok
db.dropUser("guest")
// area administration
db.runCommand({ frobnicate: 1 })
db.runCommand({ getLastRequestStatistics: 1 }).CommandName
db.people.drop()
db.dropDatabase()
