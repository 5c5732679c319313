#include "data/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "data/text/stream_digest.h"
#include "data/text/text_kind.h"
#include "data/tokenizer/forms/forms.h"
#include "data/tokenizer/normalize/rewriting.h"
#include "data/tokenizer/read/parts.h"

namespace ds {
namespace {

// Pieces that are known once they have been encoded, some 10 MiB a thread.
constexpr size_t kCachedPieces = 1 << 16;
constexpr size_t kLongestCached = 64;  // bytes

// Everything that a tokenizer.json says, in the order in which it is done to a text.
struct Parts {
  TokenTexts texts;
  std::vector<AddedToken> verbatim;  // looked for in the text
  Normalizers normalizers;
  std::vector<AddedToken> normalized;  // looked for in what the normalizers make of it
  std::vector<PreTokenizerStep> steps;
  std::unique_ptr<PieceEncoder> model;
  TokenDecoders decoders;
  bool has_bytes = false;                // pieces are written in GPT-2's letters of bytes
  std::optional<std::string> continues;  // what tokens begin with that begin no word, for WordPiece
  std::vector<std::string> notes;
};

// What one call of encode_part() has beside it.
struct Work {
  PatternWork patterns{0};
  // Texts repeat their words, so most pieces are looked up.
  std::unordered_map<std::string, std::vector<int32_t>, StringHash, std::equal_to<>> cache = {};
};

// Those that no call has at the moment: words that one text had are known for the next one.
// Thread-safe.
class WorkPool {
 public:
  class Lease {
   public:
    Lease(WorkPool& pool, size_t text_bytes) : pool_(pool), work_(pool.take()) {
      work_->patterns.begin_text(text_bytes);
    }
    ~Lease() { pool_.give(std::move(work_)); }
    Lease(const Lease&) = delete;
    Work& get() const { return *work_; }

   private:
    WorkPool& pool_;
    std::unique_ptr<Work> work_;
  };

 private:
  std::unique_ptr<Work> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Work>();
    std::unique_ptr<Work> work = std::move(idle_.back());
    idle_.pop_back();
    return work;
  }
  void give(std::unique_ptr<Work> work) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(work));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Work>> idle_;
};

class ReadTokenizer final : public Tokenizer {
 public:
  explicit ReadTokenizer(Parts parts)
      : texts_(std::move(parts.texts)),
        verbatim_(std::move(parts.verbatim)),
        normalizers_(std::move(parts.normalizers)),
        normalized_(std::move(parts.normalized)),
        pre_tokenizer_(std::move(parts.steps)),
        model_(std::move(parts.model)),
        decoders_(std::move(parts.decoders)),
        has_bytes_(parts.has_bytes),
        continues_(std::move(parts.continues)),
        notes_(std::move(parts.notes)),
        begins_anywhere_(normalizers_.empty() && verbatim_.begins_anywhere() &&
                         normalized_.begins_anywhere() && pre_tokenizer_.begins_anywhere()),
        places_(begins_anywhere_ ? CutPlaces(CutPlaces::Kind::kNone) : find_places()) {}

  int64_t vocab_size() const override { return texts_.vocab_size(); }
  bool knows(int32_t id) const override { return texts_.find(id) != nullptr; }
  std::vector<std::string> notes() const override { return notes_; }
  bool has_bytes() const override { return has_bytes_; }
  std::string in_text(int32_t id) const override {
    const std::string* written = texts_.find(id);
    if (written != nullptr && continues_)  // whatever is done to spaces before signs
      return written->starts_with(*continues_) ? written->substr(continues_->size())
                                               : " " + *written;
    const std::string before = decode({&id, 1});
    const std::string both = decode(std::array{id, id});
    return both.substr(std::min(before.size(), both.size()));
  }

  size_t encode_part(std::string_view text, const TextPart& part,
                     std::vector<int32_t>& out) const override {
    const WorkPool::Lease lease(work_, text.size());
    Work& work = lease.get();
    if (begins_anywhere_ || !part.is_cut()) return encode_sections(text, part, work, out);
    const size_t taken = encode_to_place(text, part, work, out);
    if (taken > 0 || part.goes_on) return taken;
    return encode_sections(text, {.continues = part.continues}, work, out);
  }

  size_t next_cut(std::string_view text, size_t from) const override {
    return begins_anywhere_ ? Tokenizer::next_cut(text, from) : places_.next(text, from);
  }

  bool encodes_in_parts() const override {
    return begins_anywhere_ || places_.kind() != CutPlaces::Kind::kNone;
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<std::string> tokens;
    tokens.reserve(ids.size());
    for (const int32_t id : ids) {
      const std::string* text = texts_.find(id);
      if (text == nullptr)
        throw DataError(fmt::format("tokenizer: id {} is not in the vocabulary", id));
      tokens.push_back(*text);
    }
    if (tokens.empty()) return "";
    size_t bytes = tokens.size();  // between them may come a space
    for (const std::string& token : tokens) bytes += token.size();
    PatternWork work(bytes);
    for (const auto& decoder : decoders_) decoder->apply(tokens, work);
    std::string text;
    for (const std::string& token : tokens) text += token;
    return text;
  }

 private:
  // The kind at which words of a text in lines are cut where pieces meet.
  CutPlaces find_places() const {
    using Kind = CutPlaces::Kind;
    constexpr std::string_view kLines = "one two three\nfour five six\nseven eight nine\n";
    for (const Kind kind : {Kind::kBehindLines, Kind::kBeforeSpaces}) {
      const auto may_be_cut = [&](const auto& normalizer) { return normalizer->may_be_cut(kind); };
      // A token that is a word may begin with the space at which a text is cut behind a letter.
      const bool is_open = kind == Kind::kBehindLines ||
                           (verbatim_.begins_anywhere() && normalized_.begins_anywhere());
      if (!is_open || !pre_tokenizer_.goes_on_anywhere() ||
          !std::ranges::all_of(normalizers_, may_be_cut))
        continue;
      const CutPlaces places(kind);
      const size_t place = places.next(kLines, 8);
      PatternWork work(kLines.size());
      std::string text = normalize(normalizers_, kLines.substr(0, place), work);
      const size_t stop = text.size();
      text += normalize(normalizers_, kLines.substr(place), work, PartOfText::kBehindCut);
      if (pre_tokenizer_.split(text, {.stop = stop, .goes_on = true}, true, work).taken == stop)
        return places;
    }
    return CutPlaces(Kind::kNone);
  }

  // Ends at a place of the text that its normalized form can be cut at, if pieces meet there; a few
  // are tried. 0, with nothing appended, where they do at none.
  size_t encode_to_place(std::string_view text, const TextPart& part, Work& work,
                         std::vector<int32_t>& out) const {
    constexpr size_t kBeyond = size_t{4} << 10;  // bytes by which pieces are told, and added tokens
    constexpr int kTries = 8;
    const bool is_stopped = part.stop != std::string_view::npos;
    size_t from = part.stop;
    if (!is_stopped) from = text.size() > 2 * kBeyond ? text.size() - 2 * kBeyond : text.size() / 2;
    for (int tried = 0; tried < kTries; ++tried) {
      const size_t place = places_.next(text, from);
      if (place == std::string_view::npos) {
        if (is_stopped || from == 0) return 0;
        from = 0;
        continue;
      }
      if (encode_up_to(text, place, part, kBeyond, work, out)) return place;
      from = is_stopped ? place + 1 : from / 2;
    }
    return 0;
  }

  // What becomes a space only now may belong to one on the other side.
  bool is_kept_apart(std::string_view text, size_t place, PatternWork& work) const {
    constexpr size_t kBeside = 64;
    size_t begin = place - std::min(place, kBeside);
    while (is_continuation(text[begin])) ++begin;
    const std::string_view around = whole_characters(text.substr(begin, place - begin + kBeside));
    const auto written = [&](std::string_view part) {
      return normalize(normalizers_, part, work, PartOfText::kBehindCut);
    };
    return written(around) ==
           written(around.substr(0, place - begin)) + written(around.substr(place - begin));
  }

  bool encode_up_to(std::string_view text, size_t place, const TextPart& part, size_t beyond,
                    Work& work, std::vector<int32_t>& out) const {
    size_t end = places_.next(text, place + beyond);
    if (end == std::string_view::npos) end = text.size();
    if (part.goes_on && end == text.size()) end = places_.next(text, place + 1);
    if (end == std::string_view::npos) return false;
    const bool goes_on = part.goes_on || end < text.size();
    if (!is_kept_apart(text, place, work.patterns)) return false;
    const size_t known = out.size();
    const TextPart how{.stop = place, .goes_on = goes_on, .continues = part.continues};
    // What stands behind a token begins, and does not continue.
    bool at_token = false;
    if (encode_sections(text.substr(0, end), how, work, out, &at_token) == place && !at_token)
      return true;
    out.resize(known);
    return false;
  }

  static void require_utf8(std::string_view section, size_t begin) {
    const size_t invalid = first_invalid_utf8(section);
    if (invalid == std::string_view::npos) return;
    throw DataError(
        fmt::format("tokenizer: invalid UTF-8 at byte {} of the text", begin + invalid));
  }

  // `at_token`: where not null, whether what is taken ends with an added token.
  size_t encode_sections(std::string_view text, const TextPart& part, Work& work,
                         std::vector<int32_t>& out, bool* at_token = nullptr) const {
    return verbatim_.split(
        text, part,
        [&](std::string_view section, const TextPart& of_section) {
          require_utf8(section, static_cast<size_t>(section.data() - text.data()));
          if (at_token != nullptr) *at_token = false;
          PartOfText where = PartOfText::kFurtherOn;
          if (section.data() == text.data())
            where = part.continues ? PartOfText::kBehindCut : PartOfText::kBeginning;
          const size_t beginning = where == PartOfText::kBeginning ? 1 : 0;
          if (normalizers_.empty())
            return encode_section(section, of_section, beginning, work, out);
          return encode_normalized(section, of_section, where, work, out);
        },
        [&](int32_t id) {
          out.push_back(id);
          if (at_token != nullptr) *at_token = true;
        });
  }

  NormalizedText normalized(std::string_view section, PartOfText where, PatternWork& work) const {
    if (where == PartOfText::kBeginning && pre_tokenizer_.asks_for_beginnings())
      return normalize_with_beginning(normalizers_, section, work);
    return {normalize(normalizers_, section, work, where)};
  }

  // A section that goes on beyond the stop is taken up to there, or not at all.
  size_t encode_normalized(std::string_view section, const TextPart& part, PartOfText where,
                           Work& work, std::vector<int32_t>& out) const {
    const size_t end = std::min(part.stop, section.size());
    auto [changed, beginning] = normalized(section.substr(0, end), where, work.patterns);
    if (end == section.size() && !part.goes_on) {
      encode_section(changed, {}, beginning, work, out);
      return end;
    }
    const size_t stop = changed.size();
    if (stop == 0) return 0;  // nothing is left, and what follows would be the beginning
    changed += normalize(normalizers_, section.substr(end), work.patterns, PartOfText::kBehindCut);
    const TextPart how{.stop = stop, .goes_on = part.goes_on};
    return encode_section(changed, how, beginning, work, out) == stop ? end : 0;
  }

  // `beginning`: so many bytes stand for the first character of a whole text.
  size_t encode_section(std::string_view text, const TextPart& part, size_t beginning, Work& work,
                        std::vector<int32_t>& out) const {
    return normalized_.split(
        text, part,
        [&](std::string_view section, const TextPart& of_section) {
          const bool begins = static_cast<size_t>(section.data() - text.data()) < beginning;
          const Pieces pieces = pre_tokenizer_.split(section, of_section, begins, work.patterns);
          for (const std::string_view piece : pieces.views) encode_piece(piece, work, out);
          return pieces.taken;
        },
        [&](int32_t id) { out.push_back(id); });
  }

  void encode_piece(std::string_view piece, Work& work, std::vector<int32_t>& out) const {
    const auto known = work.cache.find(piece);
    if (known != work.cache.end()) {
      out.insert(out.end(), known->second.begin(), known->second.end());
      return;
    }
    const auto begin = static_cast<ptrdiff_t>(out.size());
    model_->encode(piece, out);
    if (work.cache.size() < kCachedPieces && piece.size() <= kLongestCached)
      work.cache.emplace(piece, std::vector<int32_t>(out.begin() + begin, out.end()));
  }

  TokenTexts texts_;
  AddedTokens verbatim_;
  Normalizers normalizers_;
  AddedTokens normalized_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<PieceEncoder> model_;
  TokenDecoders decoders_;
  bool has_bytes_;
  std::optional<std::string> continues_;
  std::vector<std::string> notes_;
  bool begins_anywhere_;  // a text that is cut between two tokens has the tokens of its parts
  CutPlaces places_;      // where it is not so
  mutable WorkPool work_;
};

// An added token is found, and shown, as the normalizers leave it.
void normalize_added(const Normalizers& normalizers, std::vector<AddedToken>& tokens,
                     TokenTexts& texts) {
  size_t bytes = 0;
  for (const AddedToken& token : tokens) bytes += token.content.size();
  PatternWork work(bytes);
  for (AddedToken& token : tokens) {
    token.content = normalize(normalizers, token.content, work);
    texts.rewrite(token.id, token.content);
  }
  std::erase_if(tokens, [](const AddedToken& token) {
    return token.content.empty() || token.content.size() > AddedTokens::kLongest;
  });
}

// A first step that writes over all of a text is one of the normalizers, and cuts at what no text
// has by then are none: so texts can be encoded in parts.
void simplify(Parts& parts) {
  while (parts.normalized.empty() && !parts.steps.empty()) {
    PreTokenizerStep& first = parts.steps.front();
    const auto literal = first.pattern ? first.pattern->literal() : std::nullopt;
    if (first.rewrite != nullptr) {
      // What is left of a text's first character is known to the pre-tokenizer alone.
      if (first.rewrite->asks_for_beginnings() && !parts.normalizers.empty()) return;
      parts.normalizers.push_back(rewriting(std::exchange(first.rewrite, nullptr)));
    } else if (first.pattern == nullptr ||
               (literal && !first.invert && !parts.normalizers.empty() &&
                parts.normalizers.back()->replaces(*literal))) {
      parts.steps.erase(parts.steps.begin());
    } else {
      return;
    }
  }
}

// What cuts or fills each text for a batch of sentences is no part of what its tokens are.
void note_unused(const JsonPart& document, std::vector<std::string>& notes) {
  for (const char* const key : {"truncation", "padding"}) {
    if (!document.member(key)) continue;
    notes.push_back(
        fmt::format("\"{}\" of the tokenizer is not applied: texts keep their length, "
                    "as transformers keeps it unless a call asks for another",
                    key));
  }
}

// Tokens that the files beside the tokenizer name, and it does not have.
void note_missing(const JsonPart& document, std::vector<std::string>& notes) {
  constexpr const char* kKey = "tokens_not_looked_for";
  if (!document.member(kKey)) return;
  std::string names;
  for (const JsonPart& token : document.list(kKey)) {
    if (!token.value().IsString() || names.size() > 200) continue;
    names += (names.empty() ? "\"" : ", \"") + document.characters_of(token.value()) + "\"";
  }
  if (names.empty()) return;
  notes.push_back(
      "not looked for in texts: " + names +
      ", which tokenizer_config.json names and the tokenizer has not; transformers adds them");
}

Parts read_parts(const JsonPart& document) {
  Parts parts;
  note_unused(document, parts.notes);
  note_missing(document, parts.notes);
  if (const auto part = document.member("normalizer")) parts.normalizers = read_normalizers(*part);
  ReadSteps steps;
  if (const auto part = document.member("pre_tokenizer")) steps = read_steps(*part);
  const bool byte_letters = steps.ends_in_byte_letters;
  parts.has_bytes = byte_letters;
  const auto model = document.member("model");
  if (!model || !model->value().IsObject()) document.refuse("there is no model");
  parts.model = read_model(*model, steps, parts.texts);
  if (steps.ends_in_byte_letters) steps.steps.push_back({.rewrite = byte_letters_of_pieces()});
  parts.steps = std::move(steps.steps);
  ReadAdded added = read_added(document, parts.texts);
  parts.verbatim = std::move(added.verbatim);
  parts.normalized = std::move(added.normalized);
  normalize_added(parts.normalizers, parts.normalized, parts.texts);
  simplify(parts);
  if (const auto part = document.member("decoder")) {
    parts.decoders = read_decoders(*part);
    if (part->type() == "WordPiece") parts.continues = part->text("prefix", "##");
  } else {
    parts.decoders.push_back(byte_letters ? decode_byte_letters() : join_with_spaces());
  }
  return parts;
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_part(text, {}, ids);
  return ids;
}

size_t Tokenizer::next_cut(std::string_view text, size_t from) const {
  const size_t line_end = text.find('\n', from);
  return line_end == std::string_view::npos ? line_end : line_end + 1;
}

size_t ByteTokenizer::encode_part(std::string_view text, const TextPart& part,
                                  std::vector<int32_t>& ids) const {
  text = text.substr(0, part.stop);
  ids.reserve(ids.size() + text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return text.size();
}

std::string ByteTokenizer::in_text(int32_t id) const { return decode({&id, 1}); }

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string out;
  for (const int32_t id : ids) {
    if (id < 0 || id > 255) throw DataError(fmt::format("byte tokenizer: id {} is no byte", id));
    out.push_back(static_cast<char>(id));
  }
  return out;
}

std::unique_ptr<Tokenizer> load_tokenizer(FileSystem& file_system, const std::string& path) {
  try {
    const rapidjson::Document document = tokenizer_document(file_system, path);
    return std::make_unique<ReadTokenizer>(read_parts(JsonPart(path, document, "the file")));
  } catch (const DataError& error) {
    const std::string message = error.what();
    throw DataError(message.starts_with(path) ? message : fmt::format("{}: {}", path, message));
  }
}

std::string tokenizer_digest(FileSystem& file_system, const std::string& name_or_path) {
  if (name_or_path == "byte") return name_or_path;
  const std::string text = tokenizer_text(file_system, find_tokenizer(file_system, name_or_path));
  StreamDigest digest;
  digest.add(std::as_bytes(std::span(text)));
  return hex(digest.finish());
}

std::unique_ptr<Tokenizer> make_tokenizer(FileSystem& file_system,
                                          const std::string& name_or_path) {
  if (name_or_path == "byte") return std::make_unique<ByteTokenizer>();
  return load_tokenizer(file_system, find_tokenizer(file_system, name_or_path));
}

}  // namespace ds
