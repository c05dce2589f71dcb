// SPDX-License-Identifier: Apache-2.0

// The C compiler embeds a file in milliseconds; compiling the Swift array that `.embedInCode` creates takes half a
// minute for 100 KB.

#include "SimulatorPage.h"

#include <stddef.h>

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char api_js[] = {
#embed "../SimulatorService/Page/api.js"
};
static const unsigned char app_css[] = {
#embed "../SimulatorService/Page/app.css"
};
static const unsigned char app_js[] = {
#embed "../SimulatorService/Page/app.js"
};
static const unsigned char connections_view_js[] = {
#embed "../SimulatorService/Page/connections-view.js"
};
static const unsigned char devices_view_js[] = {
#embed "../SimulatorService/Page/devices-view.js"
};
static const unsigned char dialogs_js[] = {
#embed "../SimulatorService/Page/dialogs.js"
};
static const unsigned char dom_js[] = {
#embed "../SimulatorService/Page/dom.js"
};
static const unsigned char event_stream_js[] = {
#embed "../SimulatorService/Page/event-stream.js"
};
static const unsigned char fault_presets_js[] = {
#embed "../SimulatorService/Page/fault-presets.js"
};
static const unsigned char faults_view_js[] = {
#embed "../SimulatorService/Page/faults-view.js"
};
static const unsigned char feedback_view_js[] = {
#embed "../SimulatorService/Page/feedback-view.js"
};
static const unsigned char filter_js[] = {
#embed "../SimulatorService/Page/filter.js"
};
static const unsigned char format_js[] = {
#embed "../SimulatorService/Page/format.js"
};
static const unsigned char frame_view_js[] = {
#embed "../SimulatorService/Page/frame-view.js"
};
static const unsigned char index_html[] = {
#embed "../SimulatorService/Page/index.html"
};
static const unsigned char json_text_js[] = {
#embed "../SimulatorService/Page/json-text.js"
};
static const unsigned char notification_detail_js[] = {
#embed "../SimulatorService/Page/notification-detail.js"
};
static const unsigned char notification_list_js[] = {
#embed "../SimulatorService/Page/notification-list.js"
};
static const unsigned char notification_row_js[] = {
#embed "../SimulatorService/Page/notification-row.js"
};
static const unsigned char notification_store_js[] = {
#embed "../SimulatorService/Page/notification-store.js"
};
static const unsigned char notifications_css[] = {
#embed "../SimulatorService/Page/notifications.css"
};
static const unsigned char payload_view_js[] = {
#embed "../SimulatorService/Page/payload-view.js"
};
static const unsigned char routes_js[] = {
#embed "../SimulatorService/Page/routes.js"
};
static const unsigned char settings_js[] = {
#embed "../SimulatorService/Page/settings.js"
};
static const unsigned char state_js[] = {
#embed "../SimulatorService/Page/state.js"
};
static const unsigned char theme_js[] = {
#embed "../SimulatorService/Page/theme.js"
};
static const unsigned char openapi_yaml[] = {
#embed "../SimulatorService/openapi.yaml"
};

static const char html[] = "text/html; charset=utf-8";
static const char css[] = "text/css; charset=utf-8";
static const char javascript[] = "text/javascript; charset=utf-8";

#define FILE(path, type, bytes) {path, type, bytes, sizeof bytes}

static const struct embedded_file files[] = {
    FILE("/page/api.js", javascript, api_js),
    FILE("/page/app.css", css, app_css),
    FILE("/page/app.js", javascript, app_js),
    FILE("/page/connections-view.js", javascript, connections_view_js),
    FILE("/page/devices-view.js", javascript, devices_view_js),
    FILE("/page/dialogs.js", javascript, dialogs_js),
    FILE("/page/dom.js", javascript, dom_js),
    FILE("/page/event-stream.js", javascript, event_stream_js),
    FILE("/page/fault-presets.js", javascript, fault_presets_js),
    FILE("/page/faults-view.js", javascript, faults_view_js),
    FILE("/page/feedback-view.js", javascript, feedback_view_js),
    FILE("/page/filter.js", javascript, filter_js),
    FILE("/page/format.js", javascript, format_js),
    FILE("/page/frame-view.js", javascript, frame_view_js),
    FILE("/", html, index_html),
    FILE("/page/json-text.js", javascript, json_text_js),
    FILE("/page/notification-detail.js", javascript, notification_detail_js),
    FILE("/page/notification-list.js", javascript, notification_list_js),
    FILE("/page/notification-row.js", javascript, notification_row_js),
    FILE("/page/notification-store.js", javascript, notification_store_js),
    FILE("/page/notifications.css", css, notifications_css),
    FILE("/page/payload-view.js", javascript, payload_view_js),
    FILE("/page/routes.js", javascript, routes_js),
    FILE("/page/settings.js", javascript, settings_js),
    FILE("/page/state.js", javascript, state_js),
    FILE("/page/theme.js", javascript, theme_js),
    FILE("/openapi.yaml", "application/yaml", openapi_yaml),
};

const struct embedded_file *embedded_file(unsigned long index) {
    return index < sizeof files / sizeof *files ? &files[index] : NULL;
}
