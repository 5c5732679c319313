#include "offload/swapper.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "core/device/background_log.h"
#include "core/memory/aligned_buffer.h"
#include "core/status/error.h"
#include "core/status/failpoint.h"
#include "core/values/index.h"

namespace ds {

namespace {

SwapperOptions checked(const SwapperOptions& options) {
  DS_CHECK(options.owner.job.size() <= kSwapJobBytes && options.block_bytes >= 1,
           "swapper: a job's name of {} bytes and blocks of {}, expected at most {} and at least 1",
           options.owner.job.size(), options.block_bytes, kSwapJobBytes);
  return options;
}

}  // namespace

struct Swapper::Entry {
  enum class State : uint8_t { kMoving, kKept, kLost };
  Extent extent;
  SwapExtent written;  // what the last put() wrote
  State state = State::kMoving;
  std::string why_lost;
};

struct Swapper::Transfer {
  Transfer(IoKind what, Entry& whose, std::span<std::byte> data_read,
           std::span<const std::byte> data_written)
      : kind(what),
        entry(whose),
        header(to_size(swap_extent_header_bytes(whose.written.length, whose.written.block_bytes))),
        into(data_read),
        from(data_written) {}

  const IoKind kind;
  Entry& entry;
  const AlignedBuffer header;
  const std::span<std::byte> into;
  const std::span<const std::byte> from;
  std::vector<Ticket> tickets;
  bool timed_out = false;
  uint64_t told_as = 0;  // of the BackgroundLog
  StreamMoment::Clock::time_point ended_at{};
};

Swapper::Swapper(const SwapperOptions& options, std::unique_ptr<AsyncIo> io)
    : options_(checked(options)),
      file_(options.directory, options.owner, options.bytes),
      extents_(options.bytes, kSwapPage),
      io_(std::move(io)) {
  DS_CHECK(io_ != nullptr, "swapper {}: no asynchronous I/O", file_.path());
}

Swapper::~Swapper() = default;

int64_t Swapper::room_for(int64_t length, int64_t block_bytes) {
  return swap_extent_bytes(length, block_bytes);
}

SwapTicket Swapper::put(std::string_view key, std::span<const std::byte> from) {
  DS_CHECK(!key.empty() && key.size() <= kSwapKeyBytes && !from.empty(),
           "swapper: put of \"{}\" ({} bytes), expected a key of at most {} bytes and some data",
           key, from.size(), kSwapKeyBytes);
  Entry* entry = nullptr;
  int64_t generation = 0;
  {
    const std::lock_guard lock(entries_mutex_);
    entry = &entry_for_put(key, narrow<int64_t>(from.size()));
    generation = ++generation_;
  }
  SwapExtent written =
      describe_swap_extent(options_.owner, key, generation, options_.block_bytes, from);
  {
    const std::lock_guard lock(entries_mutex_);
    entry->written = std::move(written);
  }
  auto transfer = std::make_unique<Transfer>(IoKind::kWrite, *entry, std::span<std::byte>(), from);
  encode(entry->written, transfer->header.bytes());
  return begin(std::move(transfer));
}

SwapTicket Swapper::get(std::string_view key, std::span<std::byte> into) {
  std::unique_ptr<Transfer> transfer;
  {
    const std::lock_guard lock(entries_mutex_);
    Entry& entry = kept(key, "get");
    if (entry.state == Entry::State::kLost) {
      throw SwapCorrupt(
          fmt::format("{}its last write failed: {}", place_of(entry), entry.why_lost));
    }
    DS_CHECK(std::cmp_equal(into.size(), entry.written.length),
             "swapper: get of \"{}\" into {} bytes, expected {}", key, into.size(),
             entry.written.length);
    entry.state = Entry::State::kMoving;
    transfer = std::make_unique<Transfer>(IoKind::kRead, entry, into, std::span<const std::byte>());
  }
  return begin(std::move(transfer));
}

Swapper::Entry& Swapper::kept(std::string_view key, std::string_view for_what) {
  const auto found = entries_.find(key);
  DS_CHECK(found != entries_.end(), "swapper: {} of \"{}\", which was never put", for_what, key);
  DS_CHECK(found->second->state != Entry::State::kMoving,
           "swapper: {} of \"{}\", of which a transfer is under way: wait for it", for_what, key);
  return *found->second;
}

Swapper::Entry& Swapper::entry_for_put(std::string_view key, int64_t length) {
  const int64_t room = room_for(length, options_.block_bytes);
  if (entries_.contains(key)) {
    Entry& entry = kept(key, "put");
    entry.state = Entry::State::kMoving;
    if (entry.extent.bytes == room) return entry;
    extents_.give_back(entry.extent);
    entries_.erase(entries_.find(key));
  }
  auto entry = std::make_unique<Entry>();
  try {
    entry->extent = extents_.take(room);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(fmt::format("swap file {}, \"{}\": {}", file_.path(), key, error.what()));
  }
  return *entries_.emplace(key, std::move(entry)).first->second;
}

// The header and the data are on their way at once, in no order.
SwapTicket Swapper::begin(std::unique_ptr<Transfer> transfer) {
  Transfer& t = *transfer;
  const int64_t at = kSwapPage + t.entry.extent.offset;
  const int64_t data_at = at + narrow<int64_t>(t.header.bytes().size());
  if (options_.beside != nullptr && options_.beside->is_on()) {
    t.told_as = options_.beside->begin(
        {.kind = t.kind == IoKind::kWrite ? BackgroundKind::kNvmeWrite : BackgroundKind::kNvmeRead,
         .name = t.entry.written.key,
         .bytes = t.entry.written.length,
         .begin = StreamMoment::of_host()});
  }
  try {
    if (t.kind == IoKind::kWrite) {
      DS_FAILPOINT("swap.put_begun");
      t.tickets.push_back(io_->write(file_.io(), data_at, t.from));
      DS_FAILPOINT("swap.data_on_its_way");
      t.tickets.push_back(io_->write(file_.io(), at, t.header.bytes()));
      DS_FAILPOINT("swap.put_on_its_way");
    } else {
      t.tickets.push_back(io_->read(file_.io(), data_at, t.into));
      t.tickets.push_back(io_->read(file_.io(), at, t.header.bytes()));
    }
  } catch (const Error&) {
    abandon(std::move(transfer));
    throw;
  }
  const std::lock_guard lock(entries_mutex_);
  under_way_.emplace(++last_ticket_, std::move(transfer));
  return {last_ticket_};
}

namespace {

// Waits for all; the error of the first that failed.
template <class Transfer>
std::exception_ptr wait_for_all(AsyncIo& io, Transfer& transfer) {
  std::exception_ptr first;
  for (const Ticket ticket : transfer.tickets) {
    try {
      transfer.ended_at = std::max(transfer.ended_at, io.wait(ticket));
    } catch (const IoTimeout&) {
      transfer.timed_out = true;
      first = std::current_exception();  // tells the caller that the memory has to stay
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  return first;
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

class SwapTimeout final : public IoTimeout, public SwapFault {
  using IoTimeout::IoTimeout;
};
class SwapFull final : public DiskFull, public SwapFault {
  using DiskFull::DiskFull;
};
class SwapFailed final : public IoError, public SwapFault {
  using IoError::IoError;
};

// With what it was for in front, as the class it was.
[[noreturn]] void rethrow_with(const std::exception_ptr& error, const std::string& what_for) {
  try {
    std::rethrow_exception(error);
  } catch (const SwapCorrupt&) {
    throw;  // says it itself
  } catch (const IoTimeout& e) {
    throw SwapTimeout(what_for + e.what());
  } catch (const DiskFull& e) {
    throw SwapFull(what_for + e.what());
  } catch (const IoError& e) {
    throw SwapFailed(what_for + e.what());
  }
}

}  // namespace

// What could not be begun: what of it is under way has to end before its memory goes.
void Swapper::abandon(std::unique_ptr<Transfer> transfer) {
  wait_for_all(*io_, *transfer);
  const std::lock_guard lock(entries_mutex_);
  Entry& entry = transfer->entry;
  entry.state = transfer->kind == IoKind::kWrite ? Entry::State::kLost : Entry::State::kKept;
  entry.why_lost = "it could not be begun";
  if (transfer->timed_out) abandoned_.push_back(std::move(transfer));
}

void Swapper::wait(SwapTicket ticket) {
  std::unique_ptr<Transfer> transfer;
  {
    const std::lock_guard lock(entries_mutex_);
    auto node = under_way_.extract(ticket.id);
    DS_CHECK(!node.empty(), "swapper: a wait for transfer {}, which is not under way", ticket.id);
    transfer = std::move(node.mapped());
  }
  const auto begun = std::chrono::steady_clock::now();
  std::exception_ptr error = wait_for_all(*io_, *transfer);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begun;
  count(*transfer, waited.count());
  if (!error) {
    report(*transfer);
    try {
      transfer->kind == IoKind::kWrite ? finish_put(*transfer) : finish_get(*transfer);
    } catch (const Error&) {
      error = std::current_exception();
    }
  } else if (transfer->kind == IoKind::kRead && !transfer->timed_out &&
             file_.io().size() < file_.file_bytes()) {
    error = std::make_exception_ptr(
        SwapCorrupt(fmt::format("{}the file has {} bytes, expected {} (truncated)",
                                place_of(transfer->entry), file_.io().size(), file_.file_bytes())));
  }
  Entry& entry = transfer->entry;
  const std::string what_for = place_of(entry);
  {
    const std::lock_guard lock(entries_mutex_);
    const bool is_lost = error && transfer->kind == IoKind::kWrite;
    if (is_lost) entry.why_lost = text_of(error);
    entry.state = is_lost ? Entry::State::kLost : Entry::State::kKept;
    if (transfer->timed_out) abandoned_.push_back(std::move(transfer));
  }
  if (error) rethrow_with(error, what_for);
}

void Swapper::count(const Transfer& transfer, double waited_s) {
  const std::lock_guard lock(entries_mutex_);
  const bool reads = transfer.kind == IoKind::kRead;
  (reads ? figures_.bytes_read : figures_.bytes_written) += transfer.entry.written.length;
  (reads ? figures_.read_waits_s : figures_.write_waits_s) += waited_s;
}

SwapFigures Swapper::figures() const {
  const std::lock_guard lock(entries_mutex_);
  return figures_;
}

void Swapper::report(const Transfer& transfer) const {
  if (transfer.told_as != 0) options_.beside->end(transfer.told_as, transfer.ended_at);
}

std::string Swapper::place_of(const Entry& entry) const {
  return fmt::format("swap file {}, \"{}\" at byte {}: ", file_.path(), entry.written.key,
                     kSwapPage + entry.extent.offset);
}

void Swapper::finish_put(Transfer& /*transfer*/) { DS_FAILPOINT("swap.put_done"); }

void Swapper::finish_get(Transfer& transfer) {
  DS_FAILPOINT("swap.got");
  check_swap_extent(transfer.header.bytes(), transfer.into, transfer.entry.written,
                    {.path = file_.path(), .offset = kSwapPage + transfer.entry.extent.offset});
}

void Swapper::drop(std::string_view key) {
  const std::lock_guard lock(entries_mutex_);
  extents_.give_back(kept(key, "drop").extent);
  entries_.erase(entries_.find(key));
}

bool Swapper::has(std::string_view key) const {
  const std::lock_guard lock(entries_mutex_);
  return entries_.contains(key);
}

int64_t Swapper::generation(std::string_view key) const {
  const std::lock_guard lock(entries_mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? 0 : found->second->written.generation;
}

int64_t Swapper::bytes_free() const {
  const std::lock_guard lock(entries_mutex_);
  return extents_.bytes_free();
}

}  // namespace ds
