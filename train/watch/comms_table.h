// What a rank's calls to its peers took (pure): by operation and size, with DeepSpeed's figures and
// its tables. All calls are counted; of their times, where there are many, so many are kept, drawn
// evenly and alike on every rank, for means without outliers and for who waited for whom.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/contract/operation.h"
#include "comm/traffic_figures.h"

namespace ds {

// `bytes`: of the whole tensor. Nothing for a call that took no time.
Bandwidth rate_of(CommOp op, int64_t bytes, int ranks, double seconds);
// As DeepSpeed counts it: of the gathered and scattered ones a rank's own part.
int64_t message_bytes(CommOp op, int64_t bytes, int ranks);

class CommsTable {
 public:
  struct Call {
    std::string_view name;  // "all_reduce", or with more behind it
    CommOp op = CommOp::kBarrier;
    int64_t bytes = 0;  // of the whole tensor
    int ranks = 1;
    double seconds = 0;
  };
  void add(const Call& call);
  bool empty() const { return rows_.empty(); }
  int64_t wire_bytes() const { return wire_bytes_; }  // by formula, of all calls

  std::string to_text() const;  // for another rank
  static CommsTable from_text(std::string_view text);

  // "Comm. Op   Message Size   Count ...": a line of the operation, one for each size below it.
  std::string summary() const;
  // What this rank, `own` of `ranks`, waited for others: of each call what it took beyond the
  // shortest on any rank, who entered last and waited for nobody. Names the rank that waited least
  // in all, which the others waited for.
  static std::string stragglers(std::span<const CommsTable> ranks, size_t own,
                                std::span<const std::string> hosts);

 private:
  static constexpr size_t kMostKept = 512;
  struct Key {
    std::string name;
    int64_t bytes = 0;  // of the message
    auto operator<=>(const Key&) const = default;
  };
  struct Row {
    int64_t count = 0;
    double seconds = 0;    // all together
    double algorithm = 0;  // sums of rates
    double bus = 0;
    int64_t every = 1;           // of the times, one of so many is kept
    std::vector<double> kept{};  // seconds
  };
  std::map<Key, Row> rows_;
  int64_t wire_bytes_ = 0;
};

}  // namespace ds
