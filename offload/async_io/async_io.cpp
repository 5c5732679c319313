#include "offload/async_io/async_io.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "offload/async_io/choose_engine.h"
#include "offload/async_io/lane.h"

namespace ds {

namespace {

using std::chrono::milliseconds;

std::vector<std::unique_ptr<IoEngine>> chosen_engines(const IoOptions& options) {
  const EngineChoice choice = choose_engine(options);
  spdlog::info("{}", choice.line);
  return make_engines(choice.kind, options);
}

void check(const IoOptions& options) {
  DS_CHECK(options.block_size >= kUncachedAlignment && options.block_size % kUncachedAlignment == 0,
           "aio: block_size is {} bytes, expected a multiple of {}", options.block_size,
           kUncachedAlignment);
  DS_CHECK(options.block_size <= kMostBlockBytes, "aio: block_size is {} bytes, at most 1 GiB",
           options.block_size);
  DS_CHECK(options.queue_depth >= 1, "aio: queue_depth is {}, expected 1 at least",
           options.queue_depth);
  DS_CHECK(options.thread_count >= 1, "aio: thread_count is {}, expected 1 at least",
           options.thread_count);
  DS_CHECK(!options.use_gds || options.engine.value_or(EngineKind::kGds) == EngineKind::kGds,
           "aio: use_gds, and {} as the engine", to_string(*options.engine));
  DS_CHECK(options.timeout_ms >= 1, "aio: timeout_ms is {}, expected 1 at least",
           options.timeout_ms);
}

}  // namespace

class AsyncIo::Lanes {
 public:
  Lanes(std::vector<std::unique_ptr<IoEngine>> engines, const IoOptions& options);

  Ticket begin(IoKind kind, const IoFile& file, const Request& request);
  std::chrono::steady_clock::time_point wait(Ticket ticket);
  void wait_all();
  std::span<const std::unique_ptr<Lane>> all() const { return lanes_; }

 private:
  Transfer::Place place_of(IoKind kind, const IoFile& file) const;
  void await(const Transfer& transfer) const;

  const IoOptions options_;

  std::mutex transfers_mutex_;
  std::map<uint64_t, std::unique_ptr<Transfer>> transfers_;  // not waited for, by ticket
  std::vector<std::unique_ptr<Transfer>> overdue_;           // given up, still under way
  uint64_t next_ticket_ = 1;

  std::vector<std::unique_ptr<Lane>> lanes_;  // last: they end before what they work on
};

AsyncIo::Lanes::Lanes(std::vector<std::unique_ptr<IoEngine>> engines, const IoOptions& options)
    : options_(options) {
  DS_CHECK(!engines.empty(), "AsyncIo: no engine");
  for (auto& engine : engines) lanes_.push_back(std::make_unique<Lane>(std::move(engine), options));
}

Transfer::Place AsyncIo::Lanes::place_of(IoKind kind, const IoFile& file) const {
  Transfer::Place place{kind, file.fd(), file.direct_fd(), file.alignment(), file.path()};
  const EngineTraits& engine = lanes_.front()->traits();
  if (file.is_on_fuse() && !engine.counts_on_fuse) {
    throw Unsupported(
        fmt::format("{} on {}, which is on FUSE: the kernel would give what was moved in part for "
                    "whole; libaio and threads are told the truth (IoOptions::engine)",
                    engine.name, file.path()));
  }
  if (engine.aligns_by_itself) {
    if (file.direct_fd() < 0) {
      throw Unsupported(fmt::format("{} needs O_DIRECT, which {} lacks: {}", engine.name,
                                    file.path(), file.why_cached()));
    }
    place.alignment = {1, 1};
  }
  return place;
}

Ticket AsyncIo::Lanes::begin(IoKind kind, const IoFile& file, const Request& request) {
  DS_CHECK(request.offset >= 0, "AsyncIo: offset {} in {}", request.offset, file.path());
  Transfer::Place place = place_of(kind, file);
  const std::vector<Piece> pieces = cut(request, place.alignment, options_.block_size);
  auto owned = std::make_unique<Transfer>(std::move(place), std::ssize(pieces));
  Transfer& transfer = *owned;
  Ticket ticket;
  {
    const std::scoped_lock lock(transfers_mutex_);
    ticket.id = next_ticket_++;
    transfers_.emplace(ticket.id, std::move(owned));
  }
  // Each lane gets a run of the file; the runs of small requests go round.
  const size_t count = lanes_.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t first = pieces.size() * i / count;
    const size_t last = pieces.size() * (i + 1) / count;
    if (first == last) continue;
    lanes_[(i + ticket.id) % count]->add(transfer, std::span(pieces).subspan(first, last - first));
  }
  return ticket;
}

std::chrono::steady_clock::time_point AsyncIo::Lanes::wait(Ticket ticket) {
  std::unique_ptr<Transfer> transfer;
  {
    const std::scoped_lock lock(transfers_mutex_);
    const auto found = transfers_.find(ticket.id);
    DS_CHECK(found != transfers_.end(), "AsyncIo: ticket {} was waited for before, or never given",
             ticket.id);
    transfer = std::move(found->second);
    transfers_.erase(found);
  }
  try {
    await(*transfer);
  } catch (const IoTimeout& timeout) {
    transfer->fail({0, 0, timeout.what()});  // what has not begun is dropped
    const std::scoped_lock lock(transfers_mutex_);
    overdue_.push_back(std::move(transfer));
    throw;
  }
  transfer->throw_failure();
  return transfer->ended_at();
}

void AsyncIo::Lanes::await(const Transfer& transfer) const {
  const milliseconds step(std::clamp<int64_t>(options_.timeout_ms / 4, 1, 100));
  while (!transfer.wait_until(std::chrono::steady_clock::now() + step)) {
    for (const auto& lane : lanes_) {
      if (const auto words = lane->overdue(transfer)) throw IoTimeout(*words);
    }
  }
}

void AsyncIo::Lanes::wait_all() {
  std::vector<Ticket> tickets;
  {
    const std::scoped_lock lock(transfers_mutex_);
    for (const auto& [id, transfer] : transfers_) tickets.push_back({id});
  }
  std::exception_ptr first;
  for (const Ticket ticket : tickets) {
    try {
      wait(ticket);
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

AsyncIo::AsyncIo(const IoOptions& options) {
  check(options);
  lanes_ = std::make_unique<Lanes>(chosen_engines(options), options);
}

AsyncIo::AsyncIo(std::vector<std::unique_ptr<IoEngine>> engines, const IoOptions& options) {
  check(options);
  lanes_ = std::make_unique<Lanes>(std::move(engines), options);
}

AsyncIo::~AsyncIo() = default;

Ticket AsyncIo::read(const IoFile& file, int64_t offset, std::span<std::byte> into) {
  return lanes_->begin(IoKind::kRead, file, {offset, into.data(), std::ssize(into)});
}

Ticket AsyncIo::write(const IoFile& file, int64_t offset, std::span<const std::byte> from) {
  // Reads and writes have memory of one type; this memory is not written to.
  auto* memory = const_cast<std::byte*>(from.data());
  return lanes_->begin(IoKind::kWrite, file, {offset, memory, std::ssize(from)});
}

std::chrono::steady_clock::time_point AsyncIo::wait(Ticket ticket) { return lanes_->wait(ticket); }
void AsyncIo::wait_all() { lanes_->wait_all(); }

AsyncIo::Registration AsyncIo::register_file(const IoFile& file) {
  Registration registration;
  for (const auto& lane : lanes_->all()) {
    for (const int fd : {file.fd(), file.direct_fd()}) {
      if (fd >= 0 && lane->register_file(fd)) {
        registration.undo_.emplace_back([lane = lane.get(), fd] { lane->unregister_file(fd); });
      }
    }
  }
  return registration;
}

AsyncIo::Registration AsyncIo::register_memory(std::span<std::byte> memory) {
  Registration registration;
  for (const auto& lane : lanes_->all()) {
    if (!lane->register_memory(memory)) continue;
    registration.undo_.emplace_back(
        [lane = lane.get(), memory] { lane->unregister_memory(memory); });
  }
  return registration;
}

IoFigures AsyncIo::figures() const {
  IoFigures figures;
  for (const auto& lane : lanes_->all()) figures += lane->figures();
  return figures;
}

std::string AsyncIo::engine_name() const { return lanes_->all().front()->traits().name; }

AsyncIo::Registration::~Registration() {
  for (const auto& undo : undo_) undo();
}
AsyncIo::Registration::Registration(Registration&& other) noexcept
    : undo_(std::exchange(other.undo_, {})) {}
AsyncIo::Registration& AsyncIo::Registration::operator=(Registration&& other) noexcept {
  undo_.swap(other.undo_);
  return *this;
}

}  // namespace ds
