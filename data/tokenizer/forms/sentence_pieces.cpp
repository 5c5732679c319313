#include "data/tokenizer/forms/sentence_pieces.h"

#include <algorithm>
#include <array>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/tokenizer/forms/beside.h"
#include "data/tokenizer/forms/sentence_piece_model.h"
#include "data/tokenizer/text/base64.h"

namespace ds {
namespace {

using Kind = SentencePieces::Kind;
using Piece = SentencePieces::Piece;

struct PieceClass {
  // kFairseq: <s>, <pad>, </s>, <unk> come first, and <mask> last.
  enum class Ids { kOfModel, kFairseq };
  const char* name;                   // without "Tokenizer" and "TokenizerFast"
  bool begins = false, ends = false;  // texts, with bos_token and eos_token
  // Whether a part of a text that an added token stands before begins as a text does, where
  // "legacy" does not say.
  bool is_legacy = true;
  int64_t extra_ids = 0;  // <extra_id_0> and so on, behind the pieces, in falling order
  Ids ids = Ids::kOfModel;
};
constexpr std::array kClasses{
    PieceClass{.name = "PreTrained"},
    PieceClass{.name = "TokenizersBackend"},
    PieceClass{.name = "Llama", .begins = true, .is_legacy = false},
    PieceClass{.name = "Mistral", .begins = true, .is_legacy = false},
    PieceClass{.name = "Mixtral", .begins = true, .is_legacy = false},
    PieceClass{.name = "Gemma", .begins = true},
    PieceClass{.name = "Gemma2", .begins = true},
    PieceClass{.name = "T5", .ends = true, .extra_ids = 100},
    PieceClass{
        .name = "XLMRoberta", .begins = true, .ends = true, .ids = PieceClass::Ids::kFairseq},
    PieceClass{
        .name = "xlm-roberta", .begins = true, .ends = true, .ids = PieceClass::Ids::kFairseq},
};
// Models whose tokenizers number pieces otherwise, or do more to a text, in transformers 5. Other
// types say nothing of a tokenizer: they are those of models that were trained with it.
constexpr std::array kOtherModels{
    "albert",     "barthez",      "bert-generation", "big_bird", "camembert", "code_llama",
    "deberta-v2", "fnet",         "layoutxlm",       "m2m_100",  "marian",    "mbart",
    "mt5",        "nllb",         "nllb-moe",        "pegasus",  "pegasus_x", "plbart",
    "rembert",    "seamless_m4t", "speech_to_text",  "udop",     "umt5",      "xglm",
    "xlnet"};

const PieceClass& class_of(const Beside& beside) {
  std::optional<std::string> named = beside.tokenizer_class();
  const bool is_said = named.has_value();
  if (!named) named = beside.model_type();
  if (!named) return kClasses.front();
  for (const PieceClass& known : kClasses) {
    if (is_class(*named, known.name)) return known;
  }
  if (is_said || std::ranges::find(kOtherModels, *named) != kOtherModels.end())
    beside.refuse_class(*named);
  return kClasses.front();
}

void number_as_fairseq(std::vector<Piece>& pieces) {
  if (pieces.size() < 3 || pieces[0].kind != Kind::kUnknown || pieces[1].kind != Kind::kControl ||
      pieces[2].kind != Kind::kControl) {
    throw DataError("its first pieces are not <unk>, <s> and </s>, as those of XLM-RoBERTa are");
  }
  pieces.erase(pieces.begin(), pieces.begin() + 3);
  pieces.insert(pieces.begin(), {{"<s>", 0, Kind::kControl},
                                 {"<pad>", 0, Kind::kControl},
                                 {"</s>", 0, Kind::kControl},
                                 {"<unk>", 0, Kind::kUnknown}});
  pieces.push_back({"<mask>", 0, Kind::kControl});
}

// A model of SentencePiece with what is beside it.
class PieceForm {
 public:
  PieceForm(SentencePieceModel model, const Beside& beside, const PieceClass& known)
      : model_(std::move(model)), beside_(beside), known_(known), added_(beside.added()) {
    if (known.ids == PieceClass::Ids::kFairseq) number_as_fairseq(pieces());
    append_extra_ids();
    rename_pieces();
    for (size_t i = 0; i < pieces().size(); ++i) {
      const Piece& piece = pieces()[i];
      const auto id = static_cast<int64_t>(i);
      ids_.emplace(piece.text, id);
      if (piece.kind == Kind::kControl) add_special(piece.text, id);
      if (piece.kind == Kind::kUnknown) unknown_ = piece.text;
    }
    add_roles();
    for (auto& [token, how] : added_) how.flags.at(1) = false;  // looked for in the text as it is
  }

  std::string json() {
    JsonText json;
    json.out().StartObject();
    write_normalizer(json);
    write_decoder(json);
    write_template(json, frame_token(known_.begins, "bos_token"),
                   frame_token(known_.ends, "eos_token"));
    write_added_tokens(json, added_);
    write_roles(json, roles_);
    write_pieces(json);
    return json.finish();
  }

 private:
  std::vector<Piece>& pieces() { return model_.pieces.pieces; }

  void append_extra_ids() {
    constexpr int64_t kMost = 10000;
    if (known_.extra_ids == 0) return;
    const int64_t count = beside_.count("extra_ids").value_or(known_.extra_ids);
    if (count < 0 || count > kMost)
      throw DataError(fmt::format("tokenizer_config.json asks for {} extra_ids, expected 0 to {}",
                                  count, kMost));
    for (int64_t i = count - 1; i >= 0; --i)
      pieces().push_back({fmt::format("<extra_id_{}>", i), 0, Kind::kControl});
  }

  // An added token may take the place of a piece, which no text has then.
  void rename_pieces() {
    for (const auto& [token, how] : added_) {
      if (how.id < 0 || how.id >= std::ssize(pieces())) continue;
      Piece& piece = nth(pieces(), how.id);
      if (piece.text == token) continue;
      piece.text = token;
      if (piece.kind != Kind::kUnknown) piece.kind = Kind::kControl;
    }
  }

  void add_special(const std::string& token, int64_t id) {
    const auto entry = added_.emplace(token, AddedBeside{.id = id}).first;
    std::optional<bool>& special = entry->second.flags.front();
    if (!special) special = true;
  }

  void add_roles() {
    const std::array<std::pair<const char*, std::string>, 7> roles{
        {{"bos_token", model_.bos},
         {"eos_token", model_.eos},
         {"pad_token", model_.pad},
         {"unk_token", &known_ == kClasses.data() ? "" : unknown_},
         {"cls_token", ""},
         {"sep_token", ""},
         {"mask_token", known_.ids == PieceClass::Ids::kFairseq ? "<mask>" : ""}}};
    for (const auto& [role, fallback] : roles) {
      const std::string token = beside_.token(role, fallback.c_str());
      const auto found = ids_.find(token);
      if (found == ids_.end()) {
        if (token == fallback) continue;
        if (!added_.contains(token)) beside_.refuse_role(role, token);
      } else {
        if (token == fallback && !is_reserved(found->second)) continue;
        add_special(token, found->second);
      }
      roles_.emplace(role, token);
    }
  }
  bool is_reserved(int64_t id) {
    const Kind kind = nth(pieces(), id).kind;
    return kind == Kind::kControl || kind == Kind::kUnknown;
  }

  void write_normalizer(JsonText& json) {
    json.begin("normalizer", "SentencePiece");
    json.text("precompiled_charsmap", to_base64(model_.replacements));
    const bool every = beside_.flag("legacy", known_.is_legacy);
    json.text("prefix", !model_.add_dummy_prefix ? "none" : every ? "every" : "first");
    json.flag("remove_extra_whitespaces", model_.remove_extra_whitespaces);
    json.flag("escape_whitespaces", model_.escape_whitespaces);
    json.flag("whitespace_as_suffix", model_.whitespace_as_suffix);
    json.out().Key("kept");
    json.out().StartArray();
    for (const Piece& piece : pieces()) {
      if (piece.kind == Kind::kUserDefined) json.string(piece.text);
    }
    json.out().EndArray();
    json.out().EndObject();
  }

  void write_decoder(JsonText& json) {
    json.begin("decoder", "SentencePiece");
    const char* strip = "none";
    if (model_.remove_extra_whitespaces) {
      strip = "all";
    } else if (model_.add_dummy_prefix) {
      strip = "one";
    }
    json.text("strip", strip);
    json.flag("bytes", model_.pieces.byte_fallback);
    if (!added_.contains(unknown_)) {
      json.text("unknown", unknown_);
      json.text("unknown_surface", model_.unknown_surface);
    }
    json.out().EndObject();
  }

  // The token in a role, where texts have it around them.
  std::optional<FrameToken> frame_token(bool is_wanted, const char* role) const {
    const auto found = roles_.find(role);
    if (!is_wanted || found == roles_.end()) return std::nullopt;
    return FrameToken{found->second, added_.at(found->second).id};
  }

  void write_pieces(JsonText& json) {
    constexpr std::array kAlgorithms{"unigram", "byte_pair", "word", "character"};
    json.begin("model", "SentencePiece");
    json.text("algorithm", kAlgorithms.at(static_cast<size_t>(model_.pieces.algorithm) - 1));
    json.flag("byte_fallback", model_.pieces.byte_fallback);
    json.out().Key("vocab");
    json.out().StartArray();
    for (const Piece& piece : pieces()) {
      json.out().StartArray();
      json.string(piece.text);
      json.out().Double(static_cast<double>(piece.score));
      json.out().Int(static_cast<int>(piece.kind));
      json.out().EndArray();
    }
    json.out().EndArray();
    json.out().EndObject();
  }

  SentencePieceModel model_;
  const Beside& beside_;
  const PieceClass& known_;
  std::map<std::string, AddedBeside> added_;
  std::map<std::string, int64_t> ids_;
  std::map<std::string, std::string> roles_;
  std::string unknown_;
};

}  // namespace

std::string text_of_sentence_pieces(FileSystem& files, const std::string& path,
                                    std::string_view bytes) {
  const Beside beside(files, path);
  const PieceClass& known = class_of(beside);
  try {
    return PieceForm(parse_sentence_piece_model(bytes), beside, known).json();
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: no model of SentencePiece: {}", path, error.what()));
  }
}

}  // namespace ds
