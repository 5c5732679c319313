#include "generate/text_json.h"

#include "core/text/utf8.h"

namespace ds {
namespace {

using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

void write_text(Writer& out, const char* key, const std::string& text) {
  out.Key(key);
  out.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

void write_number(Writer& out, const char* key, double value) {
  out.Key(key);
  out.Double(value);
}

void write_whole(Writer& out, const char* key, uint64_t value) {
  out.Key(key);
  out.Uint64(value);
}

// How it was drawn, so that a line of results says how it came about.
void write_sampling(Writer& out, const GenerationTask& task, const GenerateArgs& args) {
  const GenerationSettings& settings = task.settings;
  out.Key("sampling");
  out.StartObject();
  write_number(out, "temperature", settings.sampler.temperature);
  write_whole(out, "top_k", static_cast<uint64_t>(settings.sampler.top_k));
  write_number(out, "top_p", settings.sampler.top_p);
  write_number(out, "min_p", settings.sampler.min_p);
  write_number(out, "repetition_penalty", settings.sampler.repetition_penalty);
  write_whole(out, "max_tokens", static_cast<uint64_t>(settings.max_tokens));
  write_whole(out, "seed", args.seed);
  out.Key("from_generation_config");
  out.StartArray();
  for (const std::string& key : settings.taken) out.String(key.c_str());
  out.EndArray();
  out.EndObject();
}

// A token need not be whole characters: its bytes tell then what the text cannot.
void write_token(Writer& out, const Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::string bytes = tokenizer.knows(id) ? tokenizer.in_text(id) : "";
  out.Key("id");
  out.Int(id);
  write_text(out, "text", as_utf8(bytes));
  if (first_invalid_utf8(bytes) != std::string::npos) {
    out.Key("bytes");
    out.StartArray();
    for (const char byte : bytes) out.Uint(static_cast<unsigned char>(byte));
    out.EndArray();
  }
  out.Key("logprob");
  out.Double(logprob);
}

void write_logprobs(Writer& out, std::span<const DrawnToken> tokens, const Tokenizer& tokenizer) {
  out.Key("logprobs");
  out.StartArray();
  for (const DrawnToken& token : tokens) {
    out.StartObject();
    write_token(out, tokenizer, token.id, token.logprob);
    out.Key("top");
    out.StartArray();
    for (const TokenLogprob& other : token.top) {
      out.StartObject();
      write_token(out, tokenizer, other.id, other.logprob);
      out.EndObject();
    }
    out.EndArray();
    out.EndObject();
  }
  out.EndArray();
}

}  // namespace

void write_carried(Writer& out, const PromptRecord& record) {
  for (const CarriedField& field : record.carried) {
    out.Key(field.name.data(), static_cast<rapidjson::SizeType>(field.name.size()));
    // Whatever it is: the type matters to the name of a member alone.
    out.RawValue(field.json.data(), field.json.size(), rapidjson::kObjectType);
  }
}

std::string text_json(const GeneratedText& text, const GenerationTask& task,
                      const GenerateArgs& args) {
  rapidjson::StringBuffer buffer;
  Writer out(buffer);
  out.StartObject();
  write_text(out, "prompt", as_utf8(text.prompt.record.text));
  write_text(out, "text", text.text);
  write_whole(out, "prompt_tokens", text.prompt.ids.size());
  write_whole(out, "tokens", text.ids.size());
  out.Key("ids");
  out.StartArray();
  for (const int32_t id : text.ids) out.Int(id);
  out.EndArray();
  out.Key("finish_reason");
  out.String(text.finish_reason);
  write_whole(out, "sample", static_cast<uint64_t>(text.sample));
  write_number(out, "seconds", text.seconds);
  write_number(out, "tokens_per_s", static_cast<double>(text.ids.size()) / text.seconds);
  write_sampling(out, task, args);
  if (args.logprobs) write_logprobs(out, text.tokens, *task.tokenizer);
  write_carried(out, text.prompt.record);
  out.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

}  // namespace ds
