#include "tests/offload/fuse_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ds::test {

namespace {

constexpr uint64_t kFileNode = 2;
constexpr uint32_t kMostBytes = 128 << 10;  // of one transfer

template <class T>
T read_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

fuse_attr attributes(uint64_t node, size_t bytes) {
  fuse_attr attr{};
  attr.ino = node;
  attr.mode = node == kFileNode ? S_IFREG | 0644 : S_IFDIR | 0755;
  attr.nlink = 1;
  attr.size = node == kFileNode ? bytes : 0;
  attr.blksize = 4096;
  return attr;
}

}  // namespace

std::unique_ptr<FuseFile> FuseFile::mount(const std::string& folder, size_t bytes,
                                          std::string& why) {
  Fd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device.valid()) {
    why = fmt::format("/dev/fuse: {}", std::strerror(errno));
    return nullptr;
  }
  const std::string options = fmt::format("fd={},rootmode=40000,user_id={},group_id={}",
                                          device.get(), ::getuid(), ::getgid());
  if (::mount("test", folder.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    why = fmt::format("mount of FUSE: {}", std::strerror(errno));
    return nullptr;
  }
  return std::unique_ptr<FuseFile>(new FuseFile(folder, std::move(device), bytes));
}

FuseFile::FuseFile(std::string folder, Fd device, size_t bytes)
    : folder_(std::move(folder)), device_(std::move(device)), contents_(bytes) {
  thread_ = std::thread([this] { serve(); });
}

FuseFile::~FuseFile() {
  ::umount2(folder_.c_str(), MNT_DETACH);
  closing_ = true;
  thread_.join();
}

std::vector<std::byte> FuseFile::contents() const {
  const std::scoped_lock lock(file_mutex_);
  return contents_;
}

void FuseFile::set_contents(std::span<const std::byte> bytes) {
  const std::scoped_lock lock(file_mutex_);
  contents_.assign(bytes.begin(), bytes.end());
}

void FuseFile::play(FuseFault fault, int64_t first, int64_t times) {
  const std::scoped_lock lock(file_mutex_);
  fault_ = fault;
  first_ = first;
  times_ = times;
  count_ = 0;
  played_ = 0;
}

int64_t FuseFile::played() const {
  const std::scoped_lock lock(file_mutex_);
  return played_;
}

FuseFault FuseFile::next_fault() {
  const int64_t index = count_++;
  if (fault_ == FuseFault::kNone || index < first_ || index >= first_ + times_) {
    return FuseFault::kNone;
  }
  ++played_;
  return fault_;
}

void FuseFile::serve() {
  std::vector<std::byte> request(kMostBytes + 8192);
  while (true) {
    pollfd ready{device_.get(), POLLIN, 0};
    if (::poll(&ready, 1, 100) == 0) {
      if (closing_) return;
      continue;
    }
    const ssize_t bytes = ::read(device_.get(), request.data(), request.size());
    if (bytes >= 0) {
      answer(std::span(request).first(static_cast<size_t>(bytes)));
    } else if (errno == ENODEV) {
      return;  // unmounted
    } else if (errno != EINTR && errno != EAGAIN && errno != ENOENT) {
      return;
    }
  }
}

void FuseFile::reply(uint64_t unique, int error_number, const void* data, size_t bytes) const {
  fuse_out_header header{};
  header.len = static_cast<uint32_t>(sizeof(header) + bytes);
  header.error = -error_number;
  header.unique = unique;
  const std::array<iovec, 2> parts{iovec{&header, sizeof(header)},
                                   iovec{const_cast<void*>(data), bytes}};
  // Who asked may have gone meanwhile; then nobody takes the answer.
  static_cast<void>(!::writev(device_.get(), parts.data(), bytes == 0 ? 1 : 2));
}

void FuseFile::answer(std::span<const std::byte> request) {
  const auto header = read_as<fuse_in_header>(request.data());
  const std::byte* argument = request.data() + sizeof(fuse_in_header);
  const auto reply_with = [&](const auto& out) { reply(header.unique, 0, &out, sizeof(out)); };
  switch (header.opcode) {
    case FUSE_INIT: {
      fuse_init_out out{};
      out.major = FUSE_KERNEL_VERSION;
      out.minor = std::min<uint32_t>(read_as<fuse_init_in>(argument).minor, 31);
      out.max_readahead = 0;
      out.max_write = kMostBytes;
      out.max_background = 16;
      return reply_with(out);
    }
    case FUSE_LOOKUP: {
      if (std::strcmp(reinterpret_cast<const char*>(argument), "file") != 0) {
        return reply(header.unique, ENOENT, nullptr, 0);
      }
      fuse_entry_out out{};
      out.nodeid = kFileNode;
      out.attr = attributes(kFileNode, contents().size());
      return reply_with(out);
    }
    case FUSE_GETATTR:
    case FUSE_SETATTR: {
      fuse_attr_out out{};
      out.attr = attributes(header.nodeid, contents().size());
      return reply_with(out);
    }
    case FUSE_OPEN: {
      fuse_open_out out{};
      out.open_flags = FOPEN_DIRECT_IO;
      return reply_with(out);
    }
    case FUSE_STATFS: {
      if (!answers_statfs_) return reply(header.unique, ENOSYS, nullptr, 0);
      fuse_statfs_out out{};
      out.st.bsize = 4096;
      return reply_with(out);
    }
    case FUSE_READ:
      return answer_read(header.unique, argument);
    case FUSE_WRITE:
      return answer_write(header.unique, argument);
    case FUSE_RELEASE:
    case FUSE_FLUSH:
    case FUSE_FSYNC:
    case FUSE_ACCESS:
      return reply(header.unique, 0, nullptr, 0);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      return;  // no answer is expected
    default:
      return reply(header.unique, ENOSYS, nullptr, 0);
  }
}

void FuseFile::answer_read(uint64_t unique, const std::byte* argument) {
  const auto in = read_as<fuse_read_in>(argument);
  const std::scoped_lock lock(file_mutex_);
  const FuseFault fault = next_fault();
  if (fault == FuseFault::kError) return reply(unique, EIO, nullptr, 0);
  const size_t begin = std::min<size_t>(in.offset, contents_.size());
  size_t bytes = std::min<size_t>(in.size, contents_.size() - begin);
  if (fault == FuseFault::kShort && bytes > 1) bytes /= 2;
  reply(unique, 0, contents_.data() + begin, bytes);
}

void FuseFile::answer_write(uint64_t unique, const std::byte* argument) {
  const auto in = read_as<fuse_write_in>(argument);
  const std::scoped_lock lock(file_mutex_);
  const FuseFault fault = next_fault();
  if (fault == FuseFault::kError) return reply(unique, EIO, nullptr, 0);
  size_t bytes = in.size;
  if (fault == FuseFault::kShort && bytes > 1) bytes /= 2;
  if (contents_.size() < in.offset + bytes) contents_.resize(in.offset + bytes);
  std::copy_n(argument + sizeof(in), bytes,
              contents_.begin() + static_cast<std::ptrdiff_t>(in.offset));
  fuse_write_out out{};
  out.size = static_cast<uint32_t>(bytes);
  reply(unique, 0, &out, sizeof(out));
}

}  // namespace ds::test
