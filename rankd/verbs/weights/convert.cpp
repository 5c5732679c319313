#include "rankd/verbs/weights/convert.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "rankd/verbs/terminal/end_request.h"
#include "rankd/verbs/terminal/input_texts.h"
#include "train/convert/convert.h"

namespace ds {
namespace {

ConversionTarget target_of(const std::string& kind) {
  if (kind == "universal") return ConversionTarget::kUniversal;
  return kind == "bin" ? ConversionTarget::kBin : ConversionTarget::kHf;
}

std::string converted_json(const Converted& done, const ConvertArgs& args) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> out(buffer);
  const auto put = [&](const char* key, const std::string& value) {
    out.Key(key);
    out.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  };
  const auto put_number = [&](const char* key, int64_t value) {
    out.Key(key);
    out.Int64(value);
  };
  out.StartObject();
  put("source", done.from);
  put("written_by", done.by);
  out.Key("step");
  done.step ? out.Int64(*done.step) : out.Null();
  put("kind", args.to);
  put("destination", args.destination);
  put("dtype", args.dtype);
  put_number("tensors", done.tensors);
  put_number("parameters", done.numel);
  put_number("bytes", done.bytes);
  out.Key("notes");
  out.StartArray();
  for (const std::string& note : done.notes) {
    out.String(note.data(), static_cast<rapidjson::SizeType>(note.size()));
  }
  out.EndArray();
  out.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

std::string converted_line(const Converted& done, const ConvertArgs& args) {
  const std::string step = done.step ? fmt::format(", step {}", *done.step) : "";
  std::string line = fmt::format("{} (by {}{}): {} tensors, {} parameters, {} bytes as {} in {}\n",
                                 done.from, done.by, step, done.tensors, done.numel, done.bytes,
                                 args.dtype, args.destination);
  for (const std::string& note : done.notes) line += fmt::format("note: {}\n", note);
  return line;
}

}  // namespace

int run_convert(const ConvertArgs& args) {
  RealFileSystem files;
  try {
    const EndRequest request;
    const Converted done = convert(files, {.source = args.source,
                                           .destination = args.destination,
                                           .tag = args.tag,
                                           .config = args.config,
                                           .name_map = args.name_map,
                                           .dtype = parse_dtype(args.dtype),
                                           .target = target_of(args.to),
                                           .go_on = EndRequest::check});
    print_now(args.json ? converted_json(done, args) : converted_line(done, args));
    return 0;
  } catch (const EndRequested& end) {
    end_by(end.signal());
  }
}

}  // namespace ds
