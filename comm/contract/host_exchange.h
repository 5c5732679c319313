// HostExchange: the host end of a rank, over which ranks talk about what they do: votes, figures of
// a step, lists of files, and files themselves. All of it is bytes in the memory of the process;
// tensors travel over the groups of the mesh (comm/peers.h), which may belong to a device that
// cannot read this memory.
//
// Collective: all ranks call alike. Confined to one thread, as its group is. Refuses to know what
// is agreed on.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "comm/contract/communicator.h"
#include "core/values/index.h"

namespace ds {

class HostExchange {
 public:
  // `group`: of a transport that reads the memory of processes (shm, tcp, mpi), or of nobody for
  // the dry run; must outlive this.
  explicit HostExchange(Communicator& group);
  HostExchange(const HostExchange&) = delete;  // owns the stream of its calls
  HostExchange& operator=(const HostExchange&) = delete;

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  // Equally many fixed-size values of every rank, in rank order.
  template <class Value>
  std::vector<Value> gather(const std::vector<Value>& mine);
  // Lists of any length, by rank.
  template <class Value>
  std::vector<std::vector<Value>> gather_lists(std::vector<Value> mine);
  // Returns the names of the hosts on which ranks run, by rank; long names are cut.
  std::vector<std::string> gather_host_names();
  // Throws the first rank's error as IoError on every rank, so that all of them take the same way;
  // as PeerIoError on those that did not fail themselves. `error`: what went wrong here, or
  // nothing.
  void agree_on_success(const std::string& what, const std::string& error);

  // Equal counts on both sides. send() may return before its receiver has come.
  void send(std::span<const std::byte> bytes, int to);
  void receive(std::span<std::byte> bytes, int from);
  void broadcast(std::span<std::byte> bytes, int root);
  void barrier() { group_.barrier(); }

  // What the calls are for while it lives, for the ledger; the text has to live as long.
  Span labelled(std::string_view what) { return {stream_, what}; }

 private:
  void gather_bytes(std::span<const std::byte> mine, std::span<std::byte> all);

  Communicator& group_;
  HostMemory memory_;
  ThreadPool pool_{1};
  Stream stream_;  // of its own: that of the engine may be a device's
};

// Why a rank could not do its part, as it travels between ranks: fixed size, longer words are cut.
struct WireFailure {
  std::array<char, 64> host{};    // where
  std::array<char, 400> error{};  // empty: it could
  void set(std::string_view why);
};
std::string in_words(size_t rank, const WireFailure& failure);  // "rank 2 on node-1: ..."

// As text that ends with a zero, cut to what fits.
template <size_t N>
void put_text(std::array<char, N>& into, std::string_view text) {
  into = {};
  std::copy_n(text.begin(), std::min(text.size(), N - 1), into.begin());
}

// Runs a part that concerns this rank alone; what went wrong in words, or nothing.
template <class Part>
std::string failure_of(const Part& part) {
  try {
    part();
    return "";
  } catch (const Error& failure) {
    return failure.what();
  }
}

template <class Value>
std::vector<Value> HostExchange::gather(const std::vector<Value>& mine) {
  static_assert(std::is_trivially_copyable_v<Value>, "it travels as its bytes");
  static_assert(!std::is_pointer_v<Value>, "addresses mean nothing to another process");
  std::vector<Value> all(mine.size() * to_size(size()));
  if (!mine.empty())
    gather_bytes(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  return all;
}

template <class Value>
std::vector<std::vector<Value>> HostExchange::gather_lists(std::vector<Value> mine) {
  const std::vector<size_t> counts = gather(std::vector<size_t>{mine.size()});
  const size_t most = *std::ranges::max_element(counts);
  mine.resize(most);
  const std::vector<Value> all = gather(mine);
  std::vector<std::vector<Value>> out;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * most);
    out.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(counts[rank]));
  }
  return out;
}

}  // namespace ds
