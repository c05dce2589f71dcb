// SPDX-License-Identifier: Apache-2.0

// The compiler of C embeds a file in milliseconds; as an array in Swift, which is what `.embedInCode` makes, 100 KB
// take half a minute.

#include "SimulatorPage.h"

#include <stddef.h>

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char index_html[] = {
#embed "../SimulatorService/Page/index.html"
};
static const unsigned char app_css[] = {
#embed "../SimulatorService/Page/app.css"
};
static const unsigned char app_js[] = {
#embed "../SimulatorService/Page/app.js"
};
static const unsigned char openapi_yaml[] = {
#embed "../SimulatorService/openapi.yaml"
};

static const struct embedded_file files[] = {
    {"/", "text/html; charset=utf-8", index_html, sizeof index_html},
    {"/page/app.css", "text/css; charset=utf-8", app_css, sizeof app_css},
    {"/page/app.js", "text/javascript; charset=utf-8", app_js, sizeof app_js},
    {"/openapi.yaml", "application/yaml", openapi_yaml, sizeof openapi_yaml},
};

const struct embedded_file *embedded_file(unsigned long index) {
    return index < sizeof files / sizeof *files ? &files[index] : NULL;
}
