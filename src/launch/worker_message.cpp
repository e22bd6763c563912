#include "launch/worker_message.h"

#include <climits>
#include <cstdint>
#include <exception>
#include <limits>

#include <nlohmann/json.hpp>

namespace cohort {
namespace {

using Json = nlohmann::json;

// Room for the other fields of a line of at most PIPE_BUF bytes, and for escapes in the text.
constexpr std::size_t kLongestText = 1000;

Json jsonOf(const TimeShares& s) {
  return {s.data, s.forward, s.backward, s.update, s.wait, s.checkpoint, s.evaluation};
}

TimeShares sharesOf(const Json& json) {
  return {.data = json.at(0),
          .forward = json.at(1),
          .backward = json.at(2),
          .update = json.at(3),
          .wait = json.at(4),
          .checkpoint = json.at(5),
          .evaluation = json.at(6)};
}

Json jsonOf(const std::optional<double>& number) {
  return number ? Json(*number) : Json();
}

std::optional<double> numberOf(const Json& json) {
  return json.is_number() ? std::optional(json.get<double>()) : std::nullopt;
}

// What is no message.
struct NoMessage : std::exception {};

// Whole numbers from 0 to `most`.
std::int64_t wholeOf(const Json& json, std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  if (!json.is_number_integer() || json.get<std::int64_t>() < 0 || json.get<std::int64_t>() > most)
    throw NoMessage();
  return json.get<std::int64_t>();
}

int intOf(const Json& json) {
  return static_cast<int>(wholeOf(json, std::numeric_limits<int>::max()));
}

// Infinities and NaN are null in JSON.
double anyNumberOf(const Json& json) {
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::string toLine(const WorkerMessage& m) {
  Json json{{"kind", static_cast<int>(m.kind)}, {"worker", m.worker}, {"server", m.isServer}};
  switch (m.kind) {
    case WorkerMessage::Kind::Alive:
      json.update({{"process", m.process},
                   {"step", m.step},
                   {"training", m.isTraining},
                   {"rests", m.mayRest},
                   {"beats", m.beats},
                   {"doing", m.doing.substr(0, kLongestText)},
                   {"waits", m.waitsFor.substr(0, kLongestText)},
                   {"waits_for_worker", m.waitsForAnother}});
      break;
    case WorkerMessage::Kind::Progress:
      json.update({{"step", m.progress.step},
                   {"target", m.progress.targetStep},
                   {"loss", m.progress.loss},
                   {"speed", m.progress.imagesPerSecond},
                   {"left", m.progress.secondsLeft},
                   {"accuracy", jsonOf(m.progress.accuracy)},
                   {"rate", jsonOf(m.progress.learningRate)},
                   {"seconds", jsonOf(m.progress.seconds)},
                   {"log", m.progress.logPoint}});
      break;
    case WorkerMessage::Kind::Text:
    case WorkerMessage::Kind::Failed:
    case WorkerMessage::Kind::Finished:
      json.update(
          {{"how", static_cast<int>(m.how)}, {"text", m.text.substr(0, kLongestText)}, {"code", m.exitCode}});
      break;
  }
  std::string line = json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  if (line.size() > PIPE_BUF && !m.text.empty()) {
    WorkerMessage shorter = m;
    shorter.text.resize(m.text.size() / 2);
    return toLine(shorter);
  }
  return line;
}

std::optional<WorkerMessage> parseLine(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    WorkerMessage m;
    m.kind = static_cast<WorkerMessage::Kind>(
        wholeOf(json.at("kind"), static_cast<int>(WorkerMessage::Kind::Finished)));
    m.worker = intOf(json.at("worker"));
    m.isServer = json.at("server");
    switch (m.kind) {
      case WorkerMessage::Kind::Alive:
        m.process = intOf(json.at("process"));
        m.step = wholeOf(json.at("step"));
        m.isTraining = json.at("training");
        m.mayRest = json.at("rests");
        m.beats = static_cast<std::uint64_t>(wholeOf(json.at("beats")));
        m.doing = json.at("doing");
        m.waitsFor = json.at("waits");
        m.waitsForAnother = json.at("waits_for_worker");
        return m;
      case WorkerMessage::Kind::Progress:
        m.progress = {.step = wholeOf(json.at("step")),
                      .targetStep = wholeOf(json.at("target")),
                      .loss = anyNumberOf(json.at("loss")),
                      .imagesPerSecond = anyNumberOf(json.at("speed")),
                      .secondsLeft = anyNumberOf(json.at("left")),
                      .accuracy = numberOf(json.at("accuracy")),
                      .learningRate = numberOf(json.at("rate")),
                      .seconds = sharesOf(json.at("seconds")),
                      .logPoint = json.at("log")};
        return m;
      case WorkerMessage::Kind::Text:
      case WorkerMessage::Kind::Failed:
      case WorkerMessage::Kind::Finished:
        m.how = static_cast<WorkerMessage::How>(
            wholeOf(json.at("how"), static_cast<int>(WorkerMessage::How::Warning)));
        m.text = json.at("text");
        m.exitCode = intOf(json.at("code"));
        return m;
    }
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const NoMessage&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace cohort
