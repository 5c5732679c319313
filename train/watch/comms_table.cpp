#include "train/watch/comms_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "core/status/error.h"
#include "core/tasks/clock.h"

namespace ds {
namespace {

constexpr int kColumn = 20;
constexpr double kOutliers = 0.1;  // of the times, at either end

std::string cell(std::string_view text) { return fmt::format("{:<{}}", text, kColumn); }
std::string cell(double value) { return cell(fmt::format("{:.2f}", value)); }

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

int64_t message_bytes(CommOp op, int64_t bytes, int ranks) {
  const bool has_parts = op == CommOp::kAllGather || op == CommOp::kReduceScatter;
  return has_parts ? bytes / ranks : bytes;
}

Bandwidth rate_of(CommOp op, int64_t bytes, int ranks, double seconds) {
  if (seconds <= 0) return {};
  const std::string_view name = name_of(op == CommOp::kSplit ? CommOp::kBarrier : op);
  return collective_bandwidth(name, message_bytes(op, bytes, ranks), seconds / kMillisecond, ranks);
}

void CommsTable::add(const Call& call) {
  Row& row = rows_[{std::string(call.name), message_bytes(call.op, call.bytes, call.ranks)}];
  const Bandwidth rate = rate_of(call.op, call.bytes, call.ranks, call.seconds);
  row.algorithm += rate.algorithm;
  row.bus += rate.bus;
  row.seconds += call.seconds;
  wire_bytes_ += ds::wire_bytes(call.op, call.ranks, call.bytes);
  if (row.count++ % row.every != 0) return;
  if (row.kept.size() == kMostKept) {  // every second one will do
    for (size_t i = 1; 2 * i < kMostKept; ++i) row.kept[i] = row.kept[2 * i];
    row.kept.resize(kMostKept / 2);
    row.every *= 2;
    if ((row.count - 1) % row.every != 0) return;
  }
  row.kept.push_back(call.seconds);
}

std::string CommsTable::to_text() const {
  std::string out = fmt::format("{}\n", wire_bytes_);
  for (const auto& [key, row] : rows_) {
    out += fmt::format("{}\t{} {} {} {} {} {}", key.name, key.bytes, row.count, row.seconds,
                       row.algorithm, row.bus, row.every);
    for (const double seconds : row.kept) out += fmt::format(" {}", seconds);
    out += "\n";
  }
  return out;
}

CommsTable CommsTable::from_text(std::string_view text) {
  CommsTable table;
  std::istringstream lines{std::string(text)};
  std::string line;
  std::getline(lines, line);
  table.wire_bytes_ = std::stoll(line);
  while (std::getline(lines, line)) {
    const size_t tab = line.find('\t');
    DS_CHECK(tab != std::string::npos, "communication log: \"{}\" of another rank", line);
    std::istringstream numbers(line.substr(tab + 1));
    Key key{line.substr(0, tab), 0};
    Row row;
    numbers >> key.bytes >> row.count >> row.seconds >> row.algorithm >> row.bus >> row.every;
    for (double seconds = 0; numbers >> seconds;) row.kept.push_back(seconds);
    table.rows_.emplace(std::move(key), std::move(row));
  }
  return table;
}

std::string CommsTable::summary() const {
  std::string out;
  for (const char* head : {"Comm. Op", "Message Size", "Count", "Total Latency(ms)",
                           "Avg Latency(ms)", "tput_avg (Gbps)", "busbw_avg (Gbps)"}) {
    out += cell(head);
  }
  out += "\n";
  std::string_view name;
  for (const auto& [key, row] : rows_) {
    if (key.name != name) out += key.name + "\n";
    name = key.name;
    const auto count = static_cast<double>(row.count);
    out += cell("") + cell(size_text(static_cast<double>(key.bytes))) +
           cell(std::to_string(row.count)) + cell(row.seconds / kMillisecond) +
           cell(trimmed_mean(row.kept, kOutliers) / kMillisecond) + cell(row.algorithm / count) +
           cell(row.bus / count) + "\n";
  }
  return out;
}

std::string CommsTable::stragglers(std::span<const CommsTable> ranks, size_t own,
                                   std::span<const std::string> hosts) {
  std::string out = "Breakdown with straggler effect\n";
  for (const char* head : {"Comm. Op", "Message Size", "Count", "Total comm lat(ms)",
                           "Total straggler(ms)", "Avg comm lat(ms)", "Avg straggler(ms)"}) {
    out += cell(head);
  }
  out += "\n";
  std::vector<double> waited(ranks.size());
  std::string_view name;
  for (const auto& [key, row] : ranks[own].rows_) {
    if (key.name != name) out += key.name + "\n";
    name = key.name;
    std::vector<double> least = row.kept;
    for (const CommsTable& other : ranks) {
      const auto found = other.rows_.find(key);
      if (found == other.rows_.end() || found->second.kept.size() != least.size()) continue;
      for (size_t i = 0; i < least.size(); ++i) {
        least[i] = std::min(least[i], found->second.kept[i]);
      }
    }
    const auto per_kept = static_cast<double>(row.count) / static_cast<double>(least.size());
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto found = ranks[rank].rows_.find(key);
      if (found == ranks[rank].rows_.end() || found->second.kept.size() != least.size()) continue;
      waited[rank] += (sum_of(found->second.kept) - sum_of(least)) * per_kept;
    }
    std::vector<double> straggling(least.size());
    for (size_t i = 0; i < least.size(); ++i) straggling[i] = row.kept[i] - least[i];
    out += cell("") + cell(size_text(static_cast<double>(key.bytes))) +
           cell(std::to_string(row.count)) + cell(sum_of(least) * per_kept / kMillisecond) +
           cell(sum_of(straggling) * per_kept / kMillisecond) +
           cell(trimmed_mean(least, kOutliers) / kMillisecond) +
           cell(trimmed_mean(straggling, kOutliers) / kMillisecond) + "\n";
  }
  const auto last = static_cast<size_t>(std::ranges::min_element(waited) - waited.begin());
  return out + fmt::format("the others waited for rank {} on {}, which waited {:.2f} ms itself\n",
                           last, hosts[last], waited[last] / kMillisecond);
}

}  // namespace ds
