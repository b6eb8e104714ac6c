#include "import/class_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <unordered_map>

namespace tern {
namespace {

// What data.classes allows.
constexpr uint64_t kClassesMax = 1'000'000;

std::optional<uint64_t> parse_number(const std::string& name) {
  uint64_t number = 0;
  const char* end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data(), end, number);
  if (name.empty() || error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

// Nothing unless every name is a number of its own: "7" and "07" are two names.
std::optional<std::vector<uint64_t>> parse_numbers(const std::vector<std::string>& names) {
  std::vector<uint64_t> numbers;
  for (const std::string& name : names) {
    const std::optional<uint64_t> number = parse_number(name);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  std::vector<uint64_t> sorted = numbers;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return std::nullopt;
  return numbers;
}

Result<ClassOrder> order_as_given(const std::vector<std::string>& seen,
                                  const std::vector<std::string>& given) {
  std::unordered_map<std::string, uint32_t> label;
  for (size_t i = 0; i < given.size(); ++i) label.emplace(given[i], static_cast<uint32_t>(i));
  ClassOrder order{.names = given};
  for (const std::string& name : seen) {
    const auto found = label.find(name);
    if (found == label.end()) {
      return fail(Code::corrupt,
                  fmt::format("samples are of class '{}', which is not among the {} classes that "
                              "the source lists; check that its files belong together",
                              name, given.size()));
    }
    order.labels.push_back(found->second);
  }
  return order;
}

ClassOrder label_by_number(const std::vector<std::string>& seen,
                           const std::vector<uint64_t>& numbers) {
  ClassOrder order;
  const uint64_t count = *std::ranges::max_element(numbers) + 1;
  for (uint64_t label = 0; label < count; ++label) order.names.push_back(std::to_string(label));
  for (size_t i = 0; i < seen.size(); ++i) {
    order.names[numbers[i]] = seen[i];
    order.labels.push_back(static_cast<uint32_t>(numbers[i]));
  }
  return order;
}

}  // namespace

Result<ClassOrder> order_classes(const std::vector<std::string>& seen,
                                 const std::vector<std::string>& given) {
  if (!given.empty()) return order_as_given(seen, given);
  const std::optional<std::vector<uint64_t>> numbers = parse_numbers(seen);
  const bool are_labels =
      numbers && !numbers->empty() && *std::ranges::max_element(*numbers) < kClassesMax;
  if (are_labels) return label_by_number(seen, *numbers);

  std::vector<size_t> places(seen.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::ranges::sort(places, [&](size_t a, size_t b) {
    return numbers ? (*numbers)[a] < (*numbers)[b] : seen[a] < seen[b];
  });
  ClassOrder order{.labels = std::vector<uint32_t>(seen.size())};
  for (size_t label = 0; label < places.size(); ++label) {
    order.names.push_back(seen[places[label]]);
    order.labels[places[label]] = static_cast<uint32_t>(label);
  }
  return order;
}

std::vector<std::string> order_titles(
    const std::vector<std::string>& names,
    const std::vector<std::pair<std::string, std::string>>& titles) {
  const std::unordered_map<std::string, std::string> title(titles.begin(), titles.end());
  std::vector<std::string> ordered;
  bool has_any = false;
  for (const std::string& name : names) {
    const auto found = title.find(name);
    ordered.push_back(found == title.end() ? "" : found->second);
    has_any = has_any || !ordered.back().empty();
  }
  if (!has_any) ordered.clear();
  return ordered;
}

}  // namespace tern
