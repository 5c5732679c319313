#include "data/tokens/text_tokens.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <vector>

#include "core/values/index.h"
#include "data/text/json_lines.h"

namespace ds {
namespace {

constexpr size_t kPartBytes = size_t{2} << 20;    // of a thread
constexpr size_t kBeyondPart = size_t{64} << 10;  // by which a part's last ids are told

std::vector<int32_t> ids_of_separator(const Tokenizer& tokenizer, const Separator& separator) {
  if (separator.text.empty()) return {};
  std::vector<int32_t> ids;
  try {
    ids = tokenizer.encode(separator.text);
  } catch (const DataError& error) {
    throw DataError(fmt::format("data.separator: {}", error.what()));
  }
  const bool is_bytes = dynamic_cast<const ByteTokenizer*>(&tokenizer) != nullptr;
  if (separator.kind == Separator::Kind::kOneToken && !is_bytes && ids.size() != 1) {
    throw DataError(fmt::format(
        "the eos_token \"{}\" beside the tokenizer is {} tokens of it, expected one; give "
        "data.separator",
        separator.text, ids.size()));
  }
  return ids;
}

// Lines -----------------------------------------------------------------------------------------
// Documents that are encoded at a time, in runs of some that one thread has one after the other.
class DocumentBatch {
 public:
  DocumentBatch(const TextToEncode& text, ThreadPool& pool, const OnIds& on_ids)
      : text_(text), pool_(pool), on_ids_(on_ids) {}

  // Told before: its ids are not asked for.
  void pass_over() { ++place_.documents; }
  void add(std::string_view document, int64_t line) {
    if (runs_.empty() || runs_.back().text.size() >= kRunBytes) {
      runs_.emplace_back().text.reserve(kRunBytes + document.size());
    }
    Run& run = runs_.back();
    run.text += document;
    run.documents.push_back({.end = run.text.size(), .line = line});
    ++place_.documents;
    place_.lines = line;
    run.after = place_;
    bytes_ += document.size();
    if (bytes_ >= kPartBytes * static_cast<size_t>(pool_.threads())) flush(false);
  }
  void finish() { flush(true); }

 private:
  static constexpr size_t kRunBytes = size_t{64} << 10;

  struct Document {
    size_t end = 0;  // in the run's text
    int64_t line = 0;
  };
  struct Run {
    std::string text{};
    std::vector<Document> documents{};
    std::vector<int32_t> ids{};
    std::vector<int64_t> ends{};
    TextPlace after{};
    std::exception_ptr error = nullptr;
  };

  void encode(Run& run) const {
    size_t begin = 0;
    for (const Document& document : run.documents) {
      try {
        const std::string_view text =
            std::string_view(run.text).substr(begin, document.end - begin);
        text_.tokenizer.encode_part(text, {}, run.ids);
      } catch (const DataError& error) {
        run.error = std::make_exception_ptr(
            DataError(fmt::format("{}:{}: {}", text_.path, document.line, error.what())));
        return;
      }
      begin = document.end;
      run.ids.insert(run.ids.end(), separator_->begin(), separator_->end());
      run.ends.push_back(narrow<int64_t>(run.ids.size()));
    }
  }

  // What is wrong with a document is told before what is wrong with that which separates them.
  void find_separator() {
    if (separator_) return;
    separator_.emplace();
    try {
      separator_ = ids_of_separator(text_.tokenizer, text_.options.after_json_line);
    } catch (const DataError&) {
      separator_error_ = std::current_exception();
    }
  }

  void flush(bool is_end) {
    if (runs_.empty()) runs_.emplace_back().after = place_;  // the end of passed ones
    runs_.back().after.is_end = is_end;
    if (place_.lines > 0) find_separator();
    pool_.parallel_for(narrow<int64_t>(runs_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) encode(runs_[to_size(i)]);
    });
    for (const Run& run : runs_) {
      if (run.error != nullptr) std::rethrow_exception(run.error);
    }
    if (separator_error_ != nullptr) std::rethrow_exception(separator_error_);
    for (const Run& run : runs_) on_ids_({run.ids, run.ends}, run.after);
    runs_.clear();
    bytes_ = 0;
  }

  const TextToEncode& text_;
  ThreadPool& pool_;
  const OnIds& on_ids_;
  std::optional<std::vector<int32_t>> separator_;
  std::exception_ptr separator_error_ = nullptr;
  std::vector<Run> runs_;
  size_t bytes_ = 0;
  TextPlace place_{};  // so far
};

// One text --------------------------------------------------------------------------------------
class OneText {
 public:
  OneText(ByteStream& stream, const TextToEncode& text, ThreadPool& pool, const OnIds& on_ids)
      : stream_(stream), text_(text), pool_(pool), on_ids_(on_ids) {}

  void run(const TextPlace& from) {
    skip(from.bytes);
    for (size_t wanted = buffer_bytes(); !is_read_ || !buffer_.empty();) {
      fill(wanted);
      const size_t taken = encode_buffer();
      buffer_.erase(0, taken);
      done_ += narrow<int64_t>(taken);
      // What no end is seen of is read further, and encoded by one thread.
      is_hard_ = taken == 0;
      wanted = is_hard_ ? 2 * std::max(buffer_.size(), size_t{1}) : buffer_bytes();
    }
    const std::vector<int32_t> last =
        ids_of_separator(text_.tokenizer, text_.options.after_text_file);
    const int64_t end = narrow<int64_t>(last.size());
    on_ids_({last, std::span(&end, 1)}, {.bytes = done_, .documents = 1, .is_end = true});
  }

 private:
  struct Part {
    size_t begin = 0, end = 0;  // of the buffer; the next part begins before the end
    TextPart how{};
    std::vector<int32_t> ids{};
    size_t taken = 0;
  };

  size_t buffer_bytes() const {
    return kPartBytes * static_cast<size_t>(pool_.threads()) + kBeyondPart;
  }

  void skip(int64_t bytes) {
    std::vector<char> some(kPartBytes);
    while (done_ < bytes) {
      const auto most = std::min(narrow<int64_t>(some.size()), bytes - done_);
      const size_t count = stream_.read(std::span(some).first(to_size(most)));
      if (count == 0) {
        throw DataError(fmt::format("{}: the file shrank while it was tokenised", text_.path));
      }
      done_ += narrow<int64_t>(count);
    }
  }

  void fill(size_t wanted) {
    const size_t known = buffer_.size();
    size_t size = known;
    if (wanted > size) buffer_.resize(wanted);
    while (size < buffer_.size()) {
      const size_t count = stream_.read(std::span(buffer_).subspan(size));
      if (count == 0) {
        is_read_ = true;
        break;
      }
      size += count;
    }
    buffer_.resize(size);
    look_at(std::string_view(buffer_).substr(known));
    if (done_ > 0 || known > 0) return;
    const size_t mark = size - without_mark(buffer_).size();
    buffer_.erase(0, mark);
    done_ = begins_at_ = narrow<int64_t>(mark);
  }

  // Plain files are looked at before; what comes out of compressed ones is known only now.
  void look_at(std::string_view text) const {
    if (text_.compression == Compression::kNone || text.empty()) return;
    const bool is_first = done_ == 0 && text.size() == buffer_.size();
    require_text(text, is_first ? SampleFrom::kBeginning : SampleFrom::kInside, text_.path);
  }

  // A place at which a part may end, at this byte or a little behind it; npos where there is none.
  // A little of what stands before decides, too.
  size_t cut_near(size_t from) const {
    constexpr size_t kLongestCharacter = 4;
    const size_t first = from - kLongestCharacter;
    const size_t found = text_.tokenizer.next_cut(
        std::string_view(buffer_).substr(first, kBeyondPart), kLongestCharacter);
    return found == std::string_view::npos ? found : first + found;
  }

  std::vector<Part> parts() const {
    const size_t size = is_read_ ? buffer_.size() : whole_characters(buffer_).size();
    std::vector<Part> out(1);
    out.back().how.continues = done_ > begins_at_;
    for (size_t at = kPartBytes; !is_hard_ && at + kBeyondPart < size; at += kPartBytes) {
      const size_t cut = cut_near(at);
      if (cut == std::string_view::npos || cut >= size) continue;
      Part& before = out.back();
      before.how.stop = cut - before.begin;
      before.how.goes_on = true;
      before.end = std::min(size, cut + kBeyondPart);
      before.end = whole_characters(std::string_view(buffer_).substr(0, before.end)).size();
      out.push_back({.begin = cut, .how = {.continues = true}});
    }
    out.back().end = size;
    out.back().how.goes_on = !is_read_;
    return out;
  }

  void encode(Part& part) const {
    const std::string_view text =
        std::string_view(buffer_).substr(part.begin, part.end - part.begin);
    try {
      part.taken = text_.tokenizer.encode_part(text, part.how, part.ids);
    } catch (const DataError& error) {
      const int64_t first = done_ + narrow<int64_t>(part.begin);
      const std::string from = first == 0 ? "" : fmt::format("from byte {} on: ", first);
      throw DataError(fmt::format("{}: {}{}", text_.path, from, error.what()));
    }
  }

  // Parts that begin where the one before does not end are encoded again, from there.
  size_t encode_buffer() {
    std::vector<Part> all = parts();
    pool_.parallel_for(narrow<int64_t>(all.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) encode(all[to_size(i)]);
    });
    size_t taken = 0;
    for (const Part& part : all) {
      if (part.begin != taken) break;
      taken += part.taken;
      on_ids_({.ids = part.ids}, {.bytes = done_ + narrow<int64_t>(taken)});
    }
    return taken;
  }

  ByteStream& stream_;
  const TextToEncode& text_;
  ThreadPool& pool_;
  const OnIds& on_ids_;
  std::string buffer_;     // from `done_` on
  int64_t done_ = 0;       // bytes whose ids are told
  int64_t begins_at_ = 0;  // behind a byte order mark
  bool is_read_ = false;
  bool is_hard_ = false;
};

}  // namespace

void encode_text(ByteStream& stream, const TextToEncode& text, const TextPlace& from,
                 ThreadPool& pool, const OnIds& on_ids) {
  const bool is_plain = layout_of(text.path) == TextLayout::kPlain;
  if (is_plain && text.plain == PlainText::kOneDocument) {
    OneText(stream, text, pool, on_ids).run(from);
    return;
  }
  DocumentBatch batch(text, pool, on_ids);
  const auto take = [&](std::string_view document, int64_t line) {
    if (line > from.lines) {
      batch.add(document, line);
    } else {
      batch.pass_over();
    }
  };
  if (is_plain) {
    for_each_plain_line(stream, text.path, take);
  } else {
    for_each_json_text(stream, text.path, text.options.field, take);
  }
  batch.finish();
}

}  // namespace ds
