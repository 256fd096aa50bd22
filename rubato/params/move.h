// How partitions move from one server to another while pushes go on.
//
//     idle ──order──▶ copying ──little is left──▶ frozen ──all of it there──▶ ready ──map──▶ idle
//                      │   ▲                        │
//                      │   └──── the line is lost ──┘
//                      └─ rows once; then, again and again, those that changed meanwhile
//
// The sender copies beside serving. When only little has changed since it was sent, requests are
// held for a moment, and the rest goes: changed rows, dense slices, histories. The receiver logs
// every record before it says so, hence is `ready` once everything is acknowledged; the sender
// tells the master, which alone says whose the partitions are. Until it does they are the
// sender's, from then on the receiver's, whoever dies when:
//
//     dies       before the master's word                 after it
//     sender     owns them in its next life, and the      asks the master before it serves, and
//                move begins anew                         learns that they are gone
//     receiver   the sender thaws; what came is           has all in its log, and learns that it
//                dropped when the move begins anew        is the owner
//     master     the sender stays frozen and repeats      its journal has it
//                itself to the next
//
// Both classes are pure. Records carry (move, attempt, sequence), so that one of an earlier
// attempt or one that comes twice does no harm.
#ifndef RUBATO_PARAMS_MOVE_H_
#define RUBATO_PARAMS_MOVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rubato/params/partition.h"
#include "rubato/params/record_file.h"
#include "rubato/params/shard.h"

namespace rubato {

using MoveRecord = std::pair<RecordKind, std::string>;

// Makes the records of one attempt. Observes the shard's tables while it lives: one at a time, and
// no checkpoint meanwhile.
class MoveSender {
 public:
  MoveSender(Shard& shard, const MoveOrder& order, int64_t attempt);
  ~MoveSender();
  MoveSender(const MoveSender&) = delete;
  MoveSender& operator=(const MoveSender&) = delete;

  // Some more, about a megabyte. Nothing when all was sent once and little has changed since.
  std::vector<MoveRecord> Step();
  // What is left: again some, about a megabyte or one gradient that waits for its round, until all
  // is sent. The shard must not change any more.
  std::vector<MoveRecord> Finish();
  bool finished() const { return finished_; }

  int64_t rows_sent() const { return rows_sent_; }
  int64_t rows_sent_last() const { return rows_sent_last_; }  // By Finish.

 private:
  class Watch;

  std::string Header();
  size_t SendChanged(std::vector<MoveRecord>& out);
  void ListTheRest();
  std::vector<std::vector<uint64_t>> SomeIds(uint64_t* width) const;
  void SendSome(std::vector<MoveRecord>& out);
  void PutRows(size_t table, const std::vector<uint64_t>& ids, std::vector<MoveRecord>& out);

  Shard& shard_;
  const MoveOrder order_;
  const int64_t attempt_;
  int64_t sequence_ = 0;
  std::vector<int64_t> partitions_;
  size_t next_ = 0;        // The partition to be sent next,
  uint64_t from_ = 0;      // and how many of its points were sent.
  int rounds_ = 0;         // Over what has changed since,
  size_t round_left_ = 0;  // and what of the last one is still to come.
  // Once it finishes: what is left beside rows, the next one last.
  bool finishing_ = false, finished_ = false;
  std::vector<int64_t> slices_;
  std::vector<StagedRounds::Staged> staged_;
  std::vector<std::unique_ptr<Watch>> watches_;
  int64_t rows_sent_ = 0;
  int64_t rows_sent_last_ = 0;
};

// The sender's side of moves: what it is to do now. The caller has the line to the receiver.
class MoveSource {
 public:
  // `life` is larger in every life of the server.
  MoveSource(Shard& shard, int64_t life) : shard_(shard), life_(life) {}

  // The newest word of the master; an order to others is none. Call it before Shard::SetMap.
  void SetOrder(const MoveOrder& order);
  int64_t order() const { return order_.number; }
  // Whom to have a line to; -1 for nobody.
  int64_t to() const { return order_.number > 0 && !ready_ ? order_.to : -1; }

  // The line is there, or is gone.
  void Connected();
  void Lost();
  // The receiver did not take a record, and the move begins anew once the line was lost. Unless it
  // is ABORTED, and asks for no more than that, the receiver has no room, or a full disk: that
  // lasts, and every attempt is in the way of others.
  void Refused(const absl::Status& why);
  // Why it did, the last time, in the move at hand; empty if it did not.
  const std::string& refused() const { return refused_; }
  // How long to wait before the line is opened again: longer with every refusal.
  absl::Duration pause() const;
  // What to send now, in order; each must be answered.
  std::vector<MoveRecord> Next();
  void Answered(const absl::Status& status);

  // Whether requests must be held.
  bool frozen() const { return frozen_; }
  // The move that the receiver has wholly on disk; 0 for none.
  int64_t ready() const { return ready_ ? order_.number : 0; }
  // Whether one is under way.
  bool busy() const { return sender_ != nullptr; }
  int64_t rows_sent() const { return rows_sent_; }

 private:
  Shard& shard_;
  const int64_t life_;
  MoveOrder order_;
  int64_t attempts_ = 0;
  std::unique_ptr<MoveSender> sender_;
  int64_t unanswered_ = 0;
  bool connected_ = false;
  bool frozen_ = false;
  bool ready_ = false;
  int64_t rows_sent_ = 0;
  std::string refused_;
  int refusals_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_PARAMS_MOVE_H_
