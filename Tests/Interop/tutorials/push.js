// SPDX-License-Identifier: Apache-2.0
// Sends notifications and reads feedback the way scripts for Node 0.8 did, with nothing but its standard library.
var fs = require('fs');
var tls = require('tls');

var tokens = [
  '91b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90',
  '92b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90'
];

function connect(host, port, connected) {
  var socket = tls.connect(port, host, {
    cert: fs.readFileSync('provider.pem'),
    key: fs.readFileSync('provider.key.pem')
  }, function () { connected(socket); });
  socket.on('error', function (error) {
    console.error('Cannot connect: ' + error.message);
    process.exit(1);
  });
}

connect('gateway.push.apple.com', 2195, function (socket) {
  tokens.forEach(function (token, index) {
    var payload = Buffer.from(JSON.stringify({ aps: { alert: 'Hello from Node', badge: index } }));
    var head = Buffer.alloc(index === 0 ? 1 : 9);
    if (index > 0) {
      head[0] = 1;
      head.writeUInt32BE(index, 1);
      head.writeUInt32BE(Math.floor(Date.now() / 1000) + 3600, 5);
    }
    var lengths = [Buffer.from([0, 32]), Buffer.from([payload.length >> 8, payload.length & 255])];
    var frame = Buffer.concat([head, lengths[0], Buffer.from(token, 'hex'), lengths[1], payload]);
    socket.write(frame);
    console.log('wrote ' + frame.toString('hex'));
  });
  socket.on('close', readFeedback);
  socket.end();
});

function readFeedback() {
  connect('feedback.push.apple.com', 2196, function (socket) {
    var data = Buffer.alloc(0);
    socket.on('data', function (piece) { data = Buffer.concat([data, piece]); });
    socket.on('end', function () {
      for (var offset = 0; offset + 38 <= data.length; offset += 38) {
        console.log('dead ' + data.toString('hex', offset + 6, offset + 38));
      }
      socket.end();
    });
  });
}
