#include "report/machine_json.h"

#include "report/record_fields.h"

namespace tern {

using nlohmann::json;

json machine_json(const Machine& machine) {
  json object = json::object();
  const auto add_text = [&](const char* name, const std::string& text) {
    if (!text.empty()) object[name] = text;
  };
  const auto add_number = [&](const char* name, auto number) {
    if (number > 0) object[name] = number;
  };
  add_text("cpu", machine.cpu);
  if (!machine.cpu_features.empty()) object["cpu_features"] = machine.cpu_features;
  add_number("cores", machine.cores);
  add_number("cpu_limit", machine.cpu_limit);
  add_number("memory_bytes", machine.memory_bytes);
  add_number("memory_limit_bytes", machine.memory_limit_bytes);
  add_text("kernel", machine.kernel);
  add_text("system", machine.system);
  add_text("container", machine.container);
  add_text("container_image", machine.container_image);
  add_text("cloud", machine.cloud);
  add_text("instance_type", machine.instance_type);
  return object;
}

Machine parse_machine(const json& object) {
  Machine machine;
  machine.cpu = text_or(object, "cpu", "");
  if (const auto features = object.find("cpu_features");
      features != object.end() && features->is_array()) {
    for (const json& feature : *features) {
      if (feature.is_string()) machine.cpu_features.push_back(feature.get<std::string>());
    }
  }
  machine.cores = count_or(object, "cores", 0);
  machine.cpu_limit = find_amount(object, "cpu_limit").value_or(0);
  machine.memory_bytes = count_or(object, "memory_bytes", 0);
  machine.memory_limit_bytes = count_or(object, "memory_limit_bytes", 0);
  machine.kernel = text_or(object, "kernel", "");
  machine.system = text_or(object, "system", "");
  machine.container = text_or(object, "container", "");
  machine.container_image = text_or(object, "container_image", "");
  machine.cloud = text_or(object, "cloud", "");
  machine.instance_type = text_or(object, "instance_type", "");
  return machine;
}

}  // namespace tern
