#include "checkpoint/block_file.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/memory/rounding.h"
#include "core/status/failpoint.h"
#include "core/tasks/task_limits.h"
#include "core/values/index.h"

namespace ds {
namespace {

// Large enough that the disk sees few requests, small enough that two chunks are nothing beside a
// model.
constexpr size_t kChunkBytes = size_t{4 * kBlockBytes};
constexpr size_t kChunks = 3;
constexpr size_t kCachedBlocks = 16;
// Enough that the disk has the next request while blocks are being hashed and copied.
constexpr size_t kReadThreads = 3;
constexpr int64_t kRunBlocks = 2;  // of one request past the cache

}  // namespace

BlockFileWriter::BlockFileWriter(FileSystem& file_system, const std::string& path)
    : file_(file_system.create(path, Caching::kUncached)) {
  for (size_t i = 0; i < kChunks; ++i) {
    idle_.push_back(std::make_unique<Chunk>(Chunk{AlignedBuffer(kChunkBytes)}));
  }
  filling_ = std::move(idle_.back());
  idle_.pop_back();
  thread_ = start_thread("writing files", [this] { write_chunks(); });
}

BlockFileWriter::~BlockFileWriter() { stop_thread(); }

void BlockFileWriter::stop_thread() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(queue_mutex_);
    request_ = Request::kStop;
  }
  queue_changed_.notify_all();
  thread_.join();
}

void BlockFileWriter::write_chunks() noexcept {
  while (true) {
    std::unique_ptr<Chunk> chunk;
    {
      std::unique_lock lock(queue_mutex_);
      queue_changed_.wait(lock, [&] { return !ready_.empty() || request_ == Request::kStop; });
      if (ready_.empty()) return;
      chunk = std::move(ready_.front());
      ready_.pop_front();
    }
    std::exception_ptr failure;
    try {
      DS_FAILPOINT("file.before_write");
      file_->write(chunk->file_offset, chunk->buffer.bytes().first(chunk->used));
    } catch (...) {  // carried to the thread that owns the writer
      failure = std::current_exception();
    }
    const std::scoped_lock lock(queue_mutex_);
    if (failure != nullptr) {
      failure_ = failure;
      ready_.clear();
      request_ = Request::kStop;
    }
    chunk->used = 0;
    idle_.push_back(std::move(chunk));
    queue_changed_.notify_all();
    if (failure != nullptr) return;
  }
}

void BlockFileWriter::rethrow_failure() {
  const std::scoped_lock lock(queue_mutex_);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

// Called as soon as a block is complete, while it is still in the cache of the core.
void BlockFileWriter::hash_block() {
  if (hashed_ == filling_->used) return;
  digests_.push_back(
      digest_of(filling_->buffer.bytes().subspan(hashed_, filling_->used - hashed_)));
  hashed_ = filling_->used;
}

void BlockFileWriter::hand_over() {
  filling_->file_offset = offset_ - static_cast<int64_t>(filling_->used);
  std::unique_lock lock(queue_mutex_);
  if (failure_ == nullptr) {
    ready_.push_back(std::move(filling_));
    queue_changed_.notify_all();
    queue_changed_.wait(lock, [&] { return !idle_.empty() || failure_ != nullptr; });
  }
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  filling_ = std::move(idle_.front());
  idle_.pop_front();
  hashed_ = 0;
}

void BlockFileWriter::append(std::span<const std::byte> bytes) {
  rethrow_failure();
  while (!bytes.empty()) {
    const auto room = filling_->buffer.bytes().subspan(filling_->used);
    const size_t count = std::min(kBlockBytes - filling_->used % kBlockBytes, bytes.size());
    std::memcpy(room.data(), bytes.data(), count);
    filling_->used += count;
    offset_ += static_cast<int64_t>(count);
    bytes = bytes.subspan(count);
    if (phase_ == Phase::kData && filling_->used % kBlockBytes == 0) hash_block();
    if (filling_->used == kChunkBytes) hand_over();
  }
}

void BlockFileWriter::append_zeros(int64_t count) {
  const std::vector<std::byte> zeros(to_size(count));
  append(zeros);
}

std::vector<std::string> BlockFileWriter::end_data() {
  DS_CHECK(phase_ == Phase::kData, "block file: end_data() twice");
  hash_block();
  phase_ = Phase::kIndex;
  return digests_;
}

void BlockFileWriter::finish() {
  DS_CHECK(offset_ % kUncachedAlignment == 0, "block file: {} bytes, expected a multiple of {}",
           offset_, kUncachedAlignment);
  if (filling_->used > 0) hand_over();
  stop_thread();
  rethrow_failure();
  DS_FAILPOINT("file.before_fsync");
  file_->sync();
  file_.reset();
}

const std::vector<std::byte>* BlockCache::find(const Key& key) {
  const auto found = where_.find(key);
  if (found == where_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &found->second->bytes;
}

std::vector<std::byte> BlockCache::take_room(int64_t bytes) {
  std::vector<std::byte> room;
  if (entries_.size() == kCachedBlocks) {
    room = std::move(entries_.back().bytes);
    where_.erase(entries_.back().key);
    entries_.pop_back();
  }
  room.resize(to_size(bytes));
  return room;
}

const std::vector<std::byte>& BlockCache::insert(const Key& key, std::vector<std::byte> block) {
  entries_.push_front({key, std::move(block)});
  where_[key] = entries_.begin();
  return entries_.front().bytes;
}

BlockFileReader::BlockFileReader(FileSystem& file_system, const std::string& directory,
                                 const FileVote& expected)
    : key_(expected.rank) {
  open_file(file_system, join_path(directory, expected.name), expected);
  read_index(expected);
}

// When data is read first: who looks at the index only, as a commit does, needs none.
void BlockFileReader::take_scratch() {
  const auto wanted = std::clamp<size_t>(index_.blocks.size(), 1, kReadThreads);
  while (scratch_.size() < wanted) scratch_.emplace_back(kRunBlocks * kBlockBytes);
}

void BlockFileReader::open_file(FileSystem& file_system, const std::string& path,
                                const FileVote& expected) {
  try {
    file_ = file_system.open(path, Caching::kCached);
    if (!file_->is_cached()) {
      caching_ = Caching::kUncached;
      file_ = file_system.open(path, caching_);
    }
  } catch (const InputMissing& error) {
    throw ValidationError(error.what());
  }
  const int64_t size = file_->size();
  if (size != expected.bytes || size < kTrailerBytes || size % kUncachedAlignment != 0) {
    throw ValidationError(fmt::format("{}: truncated or not of this tag: {} bytes, expected {}",
                                      path, size, expected.bytes));
  }
}

void BlockFileReader::read_index(const FileVote& expected) {
  const std::string& path = file_->path();
  const int64_t size = expected.bytes;
  const std::string raw = read_text(size - kTrailerBytes, kTrailerBytes);
  const Trailer trailer = parse_trailer(path, std::as_bytes(std::span(raw)), size);
  const std::string text = read_text(trailer.index_offset, trailer.index_bytes);
  const std::string found = digest_of(std::as_bytes(std::span(text)));
  if (found != trailer.index_digest) {
    throw ValidationError(
        fmt::format("{}: corrupt: the index at byte {} has digest {}, expected {}", path,
                    trailer.index_offset, found, trailer.index_digest));
  }
  if (found != expected.digest) {
    throw ValidationError(
        fmt::format("{}: not the file of this tag: its index has digest {}, the "
                    "manifest says {}",
                    path, found, expected.digest));
  }
  index_ = parse_index(path, text);
  const bool belongs = index_.rank == expected.rank && index_.epoch == expected.epoch &&
                       index_.data_bytes <= trailer.index_offset;
  if (!belongs) {
    throw ValidationError(
        fmt::format("{}: the index is of rank {}, generation {}, expected rank {}, generation {}",
                    path, index_.rank, index_.epoch, expected.rank, expected.epoch));
  }
}

// Reads the aligned window around the bytes; the file's length is aligned, so it has one.
std::string BlockFileReader::read_text(int64_t offset, int64_t bytes) const {
  const int64_t begin = offset / kUncachedAlignment * kUncachedAlignment;
  const int64_t end = round_up(offset + bytes, kUncachedAlignment);
  if (begin == end) return {};
  AlignedBuffer window(to_size(end - begin));
  file_->read(begin, window.bytes());
  const auto text = window.bytes().subspan(to_size(offset - begin));
  return {reinterpret_cast<const char*>(text.data()), to_size(bytes)};
}

int64_t BlockFileReader::block_bytes(int64_t block) const {
  return std::min(kBlockBytes, index_.data_bytes - block * kBlockBytes);
}

void BlockFileReader::verify_block(int64_t block, std::span<const std::byte> bytes) const {
  const std::string found = digest_of(bytes);
  const std::string& expected = nth(index_.blocks, block);
  if (found != expected) {
    throw ValidationError(fmt::format(
        "{}: corrupt: block {} (bytes [{}, {})) has digest {}, expected {}", file_->path(), block,
        block * kBlockBytes, block * kBlockBytes + block_bytes(block), found, expected));
  }
}

void BlockFileReader::read_run(int64_t first, int64_t count, std::span<std::byte> into,
                               AlignedBuffer& scratch) const {
  const bool straight = caching_ == Caching::kCached && !into.empty();
  if (!straight) {
    const auto bytes = to_size((count - 1) * kBlockBytes + block_bytes(first + count - 1));
    const size_t aligned = round_up(bytes, to_size(kUncachedAlignment));
    file_->read(first * kBlockBytes, scratch.bytes().first(aligned));
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t block = first + i;
    const auto at = to_size(i * kBlockBytes);
    const auto size = to_size(block_bytes(block));
    if (straight) {  // block by block, so that each is hashed while it is near
      file_->read(block * kBlockBytes, into.subspan(at, size));
      verify_block(block, into.subspan(at, size));
      continue;
    }
    verify_block(block, scratch.bytes().subspan(at, size));
    if (!into.empty()) std::memcpy(into.data() + at, scratch.bytes().data() + at, size);
  }
}

void BlockFileReader::read_blocks(int64_t first, int64_t count, std::span<std::byte> into) {
  take_scratch();
  const int64_t runs = divide_up(count, kRunBlocks);
  const auto workers = std::min(scratch_.size(), to_size(runs));
  std::atomic<int64_t> next = 0;
  std::vector<std::exception_ptr> failures(workers);
  const auto work = [&](size_t worker) {
    try {
      for (int64_t run = next++; run < runs; run = next++) {
        const int64_t begin = run * kRunBlocks;
        const auto target = into.empty() ? into : into.subspan(to_size(begin * kBlockBytes));
        read_run(first + begin, std::min(kRunBlocks, count - begin), target, scratch_[worker]);
      }
    } catch (...) {  // carried to the calling thread
      failures[worker] = std::current_exception();
      next = runs;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t worker = 1; worker < workers; ++worker) threads.emplace_back(work, worker);
    work(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
}

void BlockFileReader::read_part(int64_t offset, std::span<std::byte> into, BlockCache& cache) {
  const int64_t block = offset / kBlockBytes;
  const std::vector<std::byte>* bytes = cache.find({key_, block});
  if (bytes == nullptr) {
    take_scratch();
    std::vector<std::byte> fresh = cache.take_room(block_bytes(block));
    read_run(block, 1, fresh, scratch_[0]);
    bytes = &cache.insert({key_, block}, std::move(fresh));
  }
  std::memcpy(into.data(), bytes->data() + offset % kBlockBytes, into.size());
}

void BlockFileReader::read(int64_t offset, std::span<std::byte> into, BlockCache& cache) {
  DS_CHECK(offset >= 0 && offset + narrow<int64_t>(into.size()) <= index_.data_bytes,
           "read bytes [{}, {}) of {}, which has {} data bytes", offset,
           offset + narrow<int64_t>(into.size()), file_->path(), index_.data_bytes);
  while (!into.empty()) {
    const int64_t block = offset / kBlockBytes;
    const int64_t inside = offset % kBlockBytes;
    auto count = to_size(std::min(block_bytes(block) - inside, narrow<int64_t>(into.size())));
    if (static_cast<int64_t>(count) < block_bytes(block)) {
      read_part(offset, into.first(count), cache);
    } else {
      const int64_t end = offset + narrow<int64_t>(into.size());
      // The last block of the data may be short and whole at once.
      const int64_t last =
          end == index_.data_bytes ? narrow<int64_t>(index_.blocks.size()) : end / kBlockBytes;
      count = std::min(to_size((last - block) * kBlockBytes), into.size());
      read_blocks(block, last - block, into.first(count));
    }
    into = into.subspan(count);
    offset += static_cast<int64_t>(count);
  }
}

void BlockFileReader::verify() { read_blocks(0, narrow<int64_t>(index_.blocks.size()), {}); }

}  // namespace ds
