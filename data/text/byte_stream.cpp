#include "data/text/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

#include "core/values/index.h"

namespace ds {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;

class FileBytes final : public ByteStream {
 public:
  explicit FileBytes(std::unique_ptr<File> file) : file_(std::move(file)), size_(file_->size()) {}

  size_t read(std::span<char> into) override {
    const auto count = to_size(std::min(narrow<int64_t>(into.size()), size_ - offset_));
    file_->read(offset_, std::as_writable_bytes(into.first(count)));
    offset_ += static_cast<int64_t>(count);
    return count;
  }

 private:
  std::unique_ptr<File> file_;
  int64_t size_;
  int64_t offset_ = 0;
};

// Compressed bytes on their way in, and the account of what they became.
class CompressedInput {
 public:
  CompressedInput(std::unique_ptr<File> file, std::string_view format, int64_t most)
      : path_(file->path()),
        format_(format),
        most_(most),
        compressed_(file->size()),
        bytes_(std::move(file)),
        chunk_(kChunkBytes) {}

  // What is there and not used yet; empty at the end of the file.
  std::span<const char> pending() {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = bytes_.read(chunk_);
    }
    return std::span(chunk_).subspan(begin_, end_ - begin_);
  }
  void use(size_t count) { begin_ += count; }

  void count_output(size_t count) {
    output_ += static_cast<int64_t>(count);
    if (output_ > most_) {
      refuse(fmt::format("more than {} bytes come out of it; decompress it to a file", most_));
    }
    if (output_ > kSmallText && output_ / kLargestRatio > compressed_) {
      refuse(
          fmt::format("more than {} times its {} bytes come out of it; if that is meant, "
                      "decompress it to a file",
                      kLargestRatio, compressed_));
    }
  }
  [[noreturn]] void refuse(const std::string& defect) const {
    throw DataError(fmt::format("{}: {} data: {}", path_, format_, defect));
  }

 private:
  std::string path_;
  std::string_view format_;
  int64_t most_;
  int64_t compressed_;
  int64_t output_ = 0;
  FileBytes bytes_;
  std::vector<char> chunk_;
  size_t begin_ = 0, end_ = 0;
};

// One or more members (RFC 1952), as gzip, pigz and bgzip write them.
class GzipBytes final : public ByteStream {
 public:
  GzipBytes(std::unique_ptr<File> file, int64_t most) : input_(std::move(file), "gzip", most) {
    constexpr int kGzipHeader = 16;
    if (::inflateInit2(&state_, MAX_WBITS + kGzipHeader) != Z_OK)
      throw OutOfMemory("gzip: no memory to decompress");
  }
  GzipBytes(const GzipBytes&) = delete;  // owns the state of zlib
  ~GzipBytes() override { ::inflateEnd(&state_); }

  size_t read(std::span<char> into) override {
    state_.next_out = reinterpret_cast<Bytef*>(into.data());
    state_.avail_out = static_cast<uInt>(std::min(into.size(), kChunkBytes));
    const uInt room = state_.avail_out;
    while (state_.avail_out == room) {
      const std::span<const char> pending = input_.pending();
      if (pending.empty() && !has_more_) {
        if (inside_member_) input_.refuse("it ends in the middle; the file is truncated");
        break;
      }
      inside_member_ = true;
      // zlib does not change its input, but its type says it might.
      state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(pending.data()));
      state_.avail_in = static_cast<uInt>(pending.size());
      const int result = ::inflate(&state_, Z_NO_FLUSH);
      input_.use(pending.size() - state_.avail_in);
      // It may hold back what did not fit.
      has_more_ = result != Z_STREAM_END && state_.avail_out == 0;
      if (result == Z_STREAM_END) {
        inside_member_ = false;
        ::inflateReset(&state_);
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        input_.refuse(
            fmt::format("damaged: {}", state_.msg != nullptr ? state_.msg : ::zError(result)));
      }
    }
    const size_t count = room - state_.avail_out;
    input_.count_output(count);
    return count;
  }

 private:
  CompressedInput input_;
  z_stream state_{};
  bool inside_member_ = false;
  bool has_more_ = false;
};

// One or more frames (RFC 8878), with windows of at most 128 MiB.
class ZstdBytes final : public ByteStream {
 public:
  ZstdBytes(std::unique_ptr<File> file, int64_t most)
      : input_(std::move(file), "zstd", most), state_(::ZSTD_createDCtx()) {
    if (state_ == nullptr) throw OutOfMemory("zstd: no memory to decompress");
  }
  ZstdBytes(const ZstdBytes&) = delete;  // owns the state of libzstd
  ~ZstdBytes() override { ::ZSTD_freeDCtx(state_); }

  size_t read(std::span<char> into) override {
    ZSTD_outBuffer out{into.data(), std::min(into.size(), kChunkBytes), 0};
    while (out.pos == 0) {
      const std::span<const char> pending = input_.pending();
      if (pending.empty() && !has_more_) {
        if (inside_frame_) input_.refuse("it ends in the middle; the file is truncated");
        break;
      }
      ZSTD_inBuffer in{pending.data(), pending.size(), 0};
      const size_t result = ::ZSTD_decompressStream(state_, &out, &in);
      input_.use(in.pos);
      if (::ZSTD_isError(result) != 0)
        input_.refuse(fmt::format("damaged: {}", ::ZSTD_getErrorName(result)));
      inside_frame_ = result != 0;
      has_more_ = inside_frame_ && out.pos == out.size;  // it may hold back what did not fit
    }
    input_.count_output(out.pos);
    return out.pos;
  }

 private:
  CompressedInput input_;
  ZSTD_DCtx* state_;
  bool inside_frame_ = false;
  bool has_more_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_byte_stream(std::unique_ptr<File> file, Compression compression,
                                             int64_t most) {
  switch (compression) {
    case Compression::kGzip:
      return std::make_unique<GzipBytes>(std::move(file), most);
    case Compression::kZstd:
      return std::make_unique<ZstdBytes>(std::move(file), most);
    case Compression::kNone:
      break;
  }
  return std::make_unique<FileBytes>(std::move(file));
}

std::string read_decompressed(FileSystem& files, const std::string& path) {
  constexpr int64_t kLongestMagic = 4;  // bytes by which compression_of() tells formats
  std::unique_ptr<File> file = files.open(path);
  std::string head(to_size(std::min(file->size(), kLongestMagic)), '\0');
  file->read(0, std::as_writable_bytes(std::span(head)));
  const std::unique_ptr<ByteStream> stream =
      open_byte_stream(std::move(file), compression_of(head));
  std::string whole;
  std::vector<char> part(kChunkBytes);
  while (const size_t count = stream->read(part)) whole.append(part.data(), count);
  return whole;
}

}  // namespace ds
